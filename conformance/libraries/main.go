// Command libraries evaluates the small languages of Kubernetes' libraries: quantities, CEL expressions, selectors and
// generated names. It reads a question and writes a result per line, so that two releases can be compared.
//
//	{"library": "quantity", "input": ["1.5Gi"]}     {"value": [1610612736, 1610612736000, "1536Mi"]}
//	{"library": "labels", "input": ["a in (b)", "a=b"]}     {"value": true}
//	{"library": "cel", "input": ["cidr('10.0.0.0/8').isMask()"]}     {"error": "compile"}
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
)

type question struct {
	Library string   `json:"library"`
	Input   []string `json:"input"`
}

type answer struct {
	Value any     `json:"value,omitempty"`
	Error string  `json:"error,omitempty"` // compile, evaluate, or the library's text
	Cost  *uint64 `json:"cost,omitempty"`
}

// Libraries by name. names.go adds the libraries of newer releases.
var libraries = map[string]func([]string) answer{
	"quantity": quantity,
	"sum":      sum,
	"labels":   matchLabels,
	"fields":   matchFields,
	"cel":      evaluate,
}

// compatible is the release for which an API server accepts new expressions.
var compatible *version.Version

func main() {
	compatible = version.MustParse(os.Args[1])
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	encoder := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked question
		result := answer{Error: "unknown library"}
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			result.Error = err.Error()
		} else if library, ok := libraries[asked.Library]; ok {
			result = library(asked.Input)
		}
		if err := encoder.Encode(result); err != nil {
			fmt.Fprintln(os.Stderr, "libraries:", err)
			os.Exit(1)
		}
	}
}

func failed(reason string) answer { return answer{Error: reason} }

func quantity(input []string) answer {
	parsed, err := resource.ParseQuantity(input[0])
	if err != nil {
		return failed("invalid")
	}
	// Numbers are texts: JSON readers may round large ones. String would return the input.
	number, suffix := parsed.CanonicalizeBytes(nil)
	text := string(number) + string(suffix)
	return answer{Value: []string{strconv.FormatInt(parsed.Value(), 10), strconv.FormatInt(parsed.MilliValue(), 10), text}}
}

func sum(input []string) answer {
	var total resource.Quantity
	for _, text := range input {
		parsed, err := resource.ParseQuantity(text)
		if err != nil {
			return failed("invalid")
		}
		total.Add(parsed)
	}
	return answer{Value: []string{strconv.FormatInt(total.Value(), 10), strconv.FormatInt(total.MilliValue(), 10)}}
}

func pairs(text string) map[string]string {
	result := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			result[key] = value
		}
	}
	return result
}

func matchLabels(input []string) answer {
	selector, err := labels.Parse(input[0])
	if err != nil {
		return failed("invalid")
	}
	return answer{Value: selector.Matches(labels.Set(pairs(input[1])))}
}

func matchFields(input []string) answer {
	selector, err := fields.ParseSelector(input[0])
	if err != nil {
		return failed("invalid")
	}
	return answer{Value: selector.Matches(fields.Set(pairs(input[1])))}
}

// evaluate compiles an expression as a stored one; a second input checks whether it is valid in a new object.
func evaluate(input []string) answer {
	kind := environment.StoredExpressions
	if len(input) > 1 {
		kind = environment.NewExpressions
	}
	env, err := environment.MustBaseEnvSet(compatible).Env(kind)
	if err != nil {
		return failed(err.Error())
	}
	compiled, issues := env.Compile(input[0])
	if issues.Err() != nil {
		return failed("compile")
	}
	program, err := env.Program(compiled)
	if err != nil {
		return failed("compile")
	}
	result, details, err := program.Eval(map[string]any{})
	if err != nil {
		return failed("evaluate")
	}
	return answer{Value: plain(result), Cost: details.ActualCost()}
}

func plain(value ref.Val) any {
	switch value := value.(type) {
	case types.Bool, types.String:
		return value.Value()
	case types.Int:
		return strconv.FormatInt(int64(value), 10)
	case traits.Lister:
		items := []any{}
		for iterator := value.Iterator(); iterator.HasNext() == types.True; {
			items = append(items, plain(iterator.Next()))
		}
		return items
	}
	return value.Type().TypeName()
}
