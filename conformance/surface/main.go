// Command surface prints the public surface of Go source directories as JSON, without compiling them: types, constants,
// feature gates, texts, metrics and event registrations. `release/next_minor` compares it between two releases.
//
//	go run ./surface DIRECTORY ...
//
// Only the standard library is used, so that sources of any release can be read.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// surface is the output. Keys of types and constants are "<directory>.<name>", relative to the argument.
type surface struct {
	Types     map[string]goType    `json:"types"`
	Constants map[string]string    `json:"constants"`
	Gates     map[string][]gateRow `json:"gates"`
	Needs     map[string][]string  `json:"needs"`
	Texts     map[string][]string  `json:"texts"`   // by file
	Metrics   map[string]metric    `json:"metrics"` // by name
	Events    map[string][]string  `json:"events"`  // by receiver of EventsToRegister
}

type goType struct {
	Kind    string           `json:"kind"` // struct, interface or other
	Is      string           `json:"is,omitempty"`
	Members map[string]field `json:"members,omitempty"`
	Markers []string         `json:"markers,omitempty"`
}

type field struct {
	Type     string   `json:"type"`
	JSON     string   `json:"json,omitempty"`
	Protobuf string   `json:"protobuf,omitempty"`
	Markers  []string `json:"markers,omitempty"`
}

type gateRow struct {
	Version   string `json:"version"`
	Default   bool   `json:"default"`
	Stage     string `json:"stage"`
	Locked    bool   `json:"locked,omitempty"`
	MinCompat string `json:"minCompat,omitempty"`
}

type metric struct {
	Kind      string   `json:"kind"`
	Labels    []string `json:"labels,omitempty"`
	Buckets   string   `json:"buckets,omitempty"`
	Stability string   `json:"stability,omitempty"`
	Help      string   `json:"help,omitempty"`
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: surface DIRECTORY ...")
		os.Exit(2)
	}
	found := surface{
		Types: map[string]goType{}, Constants: map[string]string{}, Gates: map[string][]gateRow{}, Needs: map[string][]string{},
		Texts: map[string][]string{}, Metrics: map[string]metric{}, Events: map[string][]string{},
	}
	for _, root := range os.Args[1:] {
		if err := found.readTree(root); err != nil {
			fmt.Fprintln(os.Stderr, "surface:", err)
			os.Exit(1)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		fmt.Fprintln(os.Stderr, "surface:", err)
		os.Exit(1)
	}
}

// readTree reads all packages below a directory, without tests, test data and generated code.
func (s *surface) readTree(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if name := entry.Name(); path != root && (name == "testing" || name == "testdata" || name == "vendor") {
			return filepath.SkipDir
		}
		return s.readPackage(root, path)
	})
}

func (s *surface) readPackage(root, directory string) error {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	var parsed []*ast.File
	var names []string
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_generated") || strings.HasSuffix(name, ".pb.go") {
			continue
		}
		file, err := parser.ParseFile(files, filepath.Join(directory, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed, names = append(parsed, file), append(names, name)
	}
	relative, err := filepath.Rel(root, directory)
	if err != nil {
		return err
	}
	p := &goPackage{surface: s, path: filepath.ToSlash(relative), strings: map[string]string{}}
	for _, file := range parsed {
		p.readConstants(file)
	}
	for i, file := range parsed {
		p.readFile(file, p.path+"/"+names[i])
	}
	return nil
}

// goPackage is one package; strings are the values of its string constants.
type goPackage struct {
	*surface
	path    string
	strings map[string]string
}

func (p *goPackage) readConstants(file *ast.File) {
	for _, declared := range file.Decls {
		group, ok := declared.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST && group.Tok != token.VAR {
			continue
		}
		for _, spec := range group.Specs {
			values := spec.(*ast.ValueSpec)
			for i, name := range values.Names {
				if i >= len(values.Values) {
					continue
				}
				if text, ok := literal(values.Values[i]); ok {
					p.strings[name.Name] = text
				}
				if group.Tok == token.CONST {
					p.Constants[p.path+"."+name.Name] = print(values.Values[i])
				}
			}
		}
	}
}

func (p *goPackage) readFile(file *ast.File, name string) {
	texts := map[string]bool{}
	for _, declared := range file.Decls {
		switch typed := declared.(type) {
		case *ast.GenDecl:
			p.readDeclaration(typed, texts)
		case *ast.FuncDecl:
			if typed.Name.Name == "EventsToRegister" && typed.Recv != nil {
				p.readEvents(typed)
			}
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch typed := node.(type) {
		case *ast.CallExpr:
			p.readCall(typed, texts)
		case *ast.CompositeLit:
			p.readGates(typed)
		}
		return true
	})
	for text := range texts {
		p.Texts[name] = append(p.Texts[name], text)
	}
	sort.Strings(p.Texts[name])
}

func (p *goPackage) readDeclaration(group *ast.GenDecl, texts map[string]bool) {
	for _, spec := range group.Specs {
		switch typed := spec.(type) {
		case *ast.TypeSpec:
			if ast.IsExported(typed.Name.Name) {
				p.Types[p.path+"."+typed.Name.Name] = p.describeType(typed, group.Doc)
			}
		case *ast.ValueSpec:
			// Reasons of statuses are constants, for example ErrReasonUnschedulable.
			for i, name := range typed.Names {
				if i >= len(typed.Values) || !strings.Contains(strings.ToLower(name.Name), "reason") {
					continue
				}
				if text, ok := literal(typed.Values[i]); ok && strings.Contains(text, " ") {
					texts[text] = true
				}
			}
		}
	}
}

func (p *goPackage) describeType(spec *ast.TypeSpec, doc *ast.CommentGroup) goType {
	described := goType{Kind: "other", Members: map[string]field{}, Markers: markers(doc, spec.Doc)}
	var members *ast.FieldList
	switch typed := spec.Type.(type) {
	case *ast.StructType:
		described.Kind, members = "struct", typed.Fields
	case *ast.InterfaceType:
		described.Kind, members = "interface", typed.Methods
	default:
		described.Is = print(spec.Type)
		return described
	}
	for _, member := range members.List {
		made := field{Type: print(member.Type), Markers: markers(member.Doc)}
		if member.Tag != nil {
			if tag, err := strconv.Unquote(member.Tag.Value); err == nil {
				made.JSON, made.Protobuf = tagValue(tag, "json"), tagValue(tag, "protobuf")
			}
		}
		names := []string{made.Type} // embedded
		if len(member.Names) > 0 {
			names = nil
			for _, name := range member.Names {
				names = append(names, name.Name)
			}
		}
		for _, name := range names {
			if described.Kind == "interface" || ast.IsExported(strings.TrimPrefix(name[strings.LastIndex(name, ".")+1:], "*")) {
				described.Members[name] = made
			}
		}
	}
	return described
}

func tagValue(tag, key string) string {
	for _, part := range strings.Fields(tag) {
		if value, ok := strings.CutPrefix(part, key+":"); ok {
			if text, err := strconv.Unquote(value); err == nil {
				return text
			}
		}
	}
	return ""
}

// markers lists comment lines such as +optional and +k8s:immutable, except markers for code generation.
func markers(docs ...*ast.CommentGroup) []string {
	var lines []string
	for _, doc := range docs {
		if doc == nil {
			continue
		}
		for _, comment := range doc.List {
			line := strings.TrimSpace(strings.TrimPrefix(comment.Text, "//"))
			if strings.HasPrefix(line, "+") && !strings.Contains(line, "validation-gen") && !strings.Contains(line, "gen-nolint") {
				lines = append(lines, line)
			}
		}
	}
	sort.Strings(lines)
	return lines
}

// textFunctions make texts that users see.
var textFunctions = map[string]bool{"Sprintf": true, "Errorf": true, "New": true, "NewStatus": true, "Eventf": true, "Invalid": true, "Forbidden": true, "Required": true}

func (p *goPackage) readCall(call *ast.CallExpr, texts map[string]bool) {
	name := calledName(call)
	if textFunctions[name] {
		for _, argument := range call.Args {
			if text, ok := literal(argument); ok && strings.Contains(text, " ") {
				texts[text] = true
			}
		}
	}
	if strings.HasPrefix(name, "New") && len(call.Args) > 0 {
		p.readMetric(name, call)
	}
}

func calledName(call *ast.CallExpr) string {
	switch typed := call.Fun.(type) {
	case *ast.SelectorExpr:
		return typed.Sel.Name
	case *ast.Ident:
		return typed.Name
	}
	return ""
}

// readMetric reads a call such as NewHistogramVec(&HistogramOpts{…}, []string{…}).
func (p *goPackage) readMetric(function string, call *ast.CallExpr) {
	pointer, ok := call.Args[0].(*ast.UnaryExpr)
	if !ok {
		return
	}
	options, ok := pointer.X.(*ast.CompositeLit)
	if !ok || !strings.HasSuffix(print(options.Type), "Opts") {
		return
	}
	values := p.keyed(options)
	made := metric{Kind: strings.TrimSuffix(strings.TrimPrefix(function, "New"), "Vec"), Buckets: values["Buckets"], Help: values["Help"]}
	if _, level, ok := strings.Cut(values["StabilityLevel"], "."); ok {
		made.Stability = level
	}
	if len(call.Args) > 1 {
		if labels, ok := call.Args[1].(*ast.CompositeLit); ok {
			for _, label := range labels.Elts {
				made.Labels = append(made.Labels, p.text(label))
			}
		}
	}
	if name := strings.Trim(values["Subsystem"]+"_"+values["Name"], "_"); name != "" {
		p.Metrics[name] = made
	}
}

// keyed returns the values of a composite literal's fields: texts, or source.
func (p *goPackage) keyed(composite *ast.CompositeLit) map[string]string {
	values := map[string]string{}
	for _, element := range composite.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			values[print(pair.Key)] = p.text(pair.Value)
		}
	}
	return values
}

// text returns the value of a string literal or constant, otherwise the source.
func (p *goPackage) text(expression ast.Expr) string {
	if text, ok := literal(expression); ok {
		return text
	}
	if name, ok := expression.(*ast.Ident); ok {
		if text, ok := p.strings[name.Name]; ok {
			return text
		}
	}
	return print(expression)
}

// readGates reads map[Feature]VersionedSpecs{…} and map[Feature][]Feature{…}.
func (p *goPackage) readGates(composite *ast.CompositeLit) {
	kind, ok := composite.Type.(*ast.MapType)
	if !ok || !strings.HasSuffix(print(kind.Key), "Feature") {
		return
	}
	for _, element := range composite.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		value, ok := pair.Value.(*ast.CompositeLit)
		if !ok {
			continue
		}
		name := p.text(pair.Key)
		name = name[strings.LastIndex(name, ".")+1:]
		switch {
		case strings.HasSuffix(print(kind.Value), "VersionedSpecs"):
			for _, row := range value.Elts {
				if spec, ok := row.(*ast.CompositeLit); ok {
					p.Gates[name] = append(p.Gates[name], p.readGateRow(spec))
				}
			}
		case strings.HasSuffix(print(kind.Value), "Feature"):
			for _, need := range value.Elts {
				text := p.text(need)
				p.Needs[name] = append(p.Needs[name], text[strings.LastIndex(text, ".")+1:])
			}
		}
	}
}

func (p *goPackage) readGateRow(spec *ast.CompositeLit) gateRow {
	values := p.keyed(spec)
	stage := values["PreRelease"]
	version := func(source string) string {
		if _, after, ok := strings.Cut(source, `"`); ok {
			text, _, _ := strings.Cut(after, `"`)
			return text
		}
		return ""
	}
	return gateRow{
		Version: version(values["Version"]), Default: values["Default"] == "true", Stage: stage[strings.LastIndex(stage, ".")+1:],
		Locked: values["LockToDefault"] == "true", MinCompat: version(values["MinCompatibilityVersion"]),
	}
}

// readEvents lists the ClusterEvents in a plugin's EventsToRegister, with their hints.
func (p *goPackage) readEvents(function *ast.FuncDecl) {
	key := p.path + "." + strings.TrimPrefix(print(function.Recv.List[0].Type), "*")
	events := map[string]bool{}
	ast.Inspect(function, func(node ast.Node) bool {
		composite, ok := node.(*ast.CompositeLit)
		if !ok {
			return true
		}
		for _, element := range composite.Elts {
			pair, ok := element.(*ast.KeyValueExpr)
			if !ok || print(pair.Key) != "Event" {
				continue
			}
			if event, ok := pair.Value.(*ast.CompositeLit); ok {
				values, outer := p.keyed(event), p.keyed(composite)
				text := strings.ReplaceAll(values["Resource"]+"/"+values["ActionType"], "fwk.", "")
				if hint := outer["QueueingHintFn"]; hint != "" {
					text += " " + hint[strings.LastIndex(hint, ".")+1:]
				}
				events[text] = true
			}
		}
		return true
	})
	for event := range events {
		p.Events[key] = append(p.Events[key], event)
	}
	sort.Strings(p.Events[key])
}

func literal(expression ast.Expr) (string, bool) {
	switch typed := expression.(type) {
	case *ast.BasicLit:
		if typed.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(typed.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, ok := literal(typed.X)
		right, also := literal(typed.Y)
		return left + right, ok && also && typed.Op == token.ADD
	}
	return "", false
}

func print(node ast.Node) string {
	var text strings.Builder
	if err := printer.Fprint(&text, token.NewFileSet(), node); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(text.String()), " ")
}
