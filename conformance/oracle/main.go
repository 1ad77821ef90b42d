// Command oracle prints the decisions of kube-scheduler's code with reasons, in the decisions format.
// README.md describes its input and output.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
)

const usage = `usage: oracle [--config FILE] [--search all|config] [--feature-gates A=true,B=false] -f FILE ...
                                                   one cluster; the decisions as JSON
       oracle --stream                             a cluster a line in, a line of decisions out
                                                   --emulated-version 1.36: with the feature gates of an older release
       oracle queue --stream                       a queue history a line in, a line of reports out
       oracle config --stream                      a configuration a line in, the completed one out
`

func main() {
	silence()
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// silence disables upstream's logging, and its pause of a millisecond after each logged error.
func silence() {
	klog.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil
	// A panic of a plugin in a worker goroutine must affect one cluster, not the process: see guarded.
	utilruntime.ReallyCrash = false
	// kube-scheduler exits on events that no API server allows, such as a pod that changes nodes.
	klog.OsExit = func(code int) {
		panic(fmt.Sprintf("kube-scheduler would exit with code %d: its cache is corrupted", code))
	}
}

// files is the repeatable -f.
type files []string

func (f *files) String() string         { return fmt.Sprint(*f) }
func (f *files) Set(value string) error { *f = append(*f, value); return nil }

func run(args []string, in io.Reader, out io.Writer) error {
	answer := answerCluster
	if len(args) > 0 {
		if other, ok := map[string]func([]byte) any{"queue": answerQueue, "config": answerConfig}[args[0]]; ok {
			answer, args = other, args[1:]
		}
	}
	var inputs files
	flags := flag.NewFlagSet("oracle", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(flags.Output(), usage) }
	stream := flags.Bool("stream", false, "")
	config := flags.String("config", "", "")
	search := flags.String("search", searchAll, "")
	gates := cliflag.NewMapStringBool(&map[string]bool{})
	flags.Var(gates, "feature-gates", "")
	emulated := flags.String("emulated-version", "", "")
	flags.Var(&inputs, "f", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := emulate(*emulated); err != nil {
		return err
	}
	if *stream {
		return answerLines(in, out, answer)
	}
	if len(inputs) == 0 {
		return fmt.Errorf("no input: use -f FILE or --stream\n%s", usage)
	}
	asked, err := readRequest(inputs, in, *config, *search)
	if err != nil {
		return err
	}
	asked.FeatureGates = *gates.Map
	return answerOne(asked, out)
}

// answerOne prints the decisions of one cluster, indented.
func answerOne(asked request, out io.Writer) error {
	made, err := guarded(asked.decide)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(struct {
		Decisions []decision      `json:"decisions"`
		Groups    []groupDecision `json:"groups,omitempty"`
	}{made.decisions, made.groups})
}

// answerLines replies to each line immediately, so that a caller can send and wait in turn.
func answerLines(in io.Reader, out io.Writer, answer func([]byte) any) error {
	lines := bufio.NewReaderSize(in, 1<<20)
	buffered := bufio.NewWriterSize(out, 1<<20)
	encoder := json.NewEncoder(buffered)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 1 {
			if err := encoder.Encode(answer(line)); err != nil {
				return err
			}
			// No further line is buffered: the caller is waiting for the reply.
			if lines.Buffered() == 0 {
				if err := buffered.Flush(); err != nil {
					return err
				}
			}
		}
		if err == io.EOF {
			return buffered.Flush()
		}
		if err != nil {
			return err
		}
	}
}
