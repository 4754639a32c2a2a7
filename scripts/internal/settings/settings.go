// Package settings reads the services' environment variables from the source of their Config
// structs: names, types, limits and defaults from tags, descriptions from comments. It generates
// the lists in READMEs. The charts' schemas and blocks "rpc" are generated from what it has read.
package settings

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Setting describes one environment variable of a service.
type Setting struct {
	Name     string
	Takes    string // the accepted values, such as "duration, 1s–10m"
	Default  string // empty: none
	Required bool   // always, whatever other settings are
	Meaning  string

	Type     string   // Go type of the field, such as time.Duration
	Min, Max string   // the least and greatest value; empty: none
	OneOf    []string // the accepted values; nil: any
	Of       string   // the struct that has the field, such as pkg/rpc.Peer
}

// Secret reports whether the charts read the variable from a Kubernetes Secret.
func (s Setting) Secret() bool { return strings.HasSuffix(s.Type, "config.Secret") }

// module is the prefix of all import paths in the checkout.
const module = "urr.guru/"

// Read returns the settings of a service's Config, in the order of the fields. If a field with a
// variable has no comment, it returns an error.
func Read(root, service string) ([]Setting, error) {
	r := configReader{root: root}
	all, err := r.readStruct(filepath.Join("services", service, "internal", "app"), "Config", "")
	return all, errors.Join(err, r.requireDescriptions(all))
}

type configReader struct{ root string }

func (configReader) requireDescriptions(settings []Setting) error {
	var errs []error
	for _, s := range settings {
		if s.Meaning == "" {
			errs = append(errs, fmt.Errorf("%s: its field has no comment", s.Name))
		}
	}
	return errors.Join(errs...)
}

// readStruct reads the settings of a struct in the folder dir. All their names begin with prefix.
func (r configReader) readStruct(dir, name, prefix string) ([]Setting, error) {
	file, typ, err := r.findStruct(dir, name)
	if err != nil {
		return nil, err
	}
	variables := variablesByField(typ, prefix)
	var all []Setting
	for _, f := range typ.Fields.List {
		tag, prefixOfField := tagOf(f)
		if variable := variables[fieldName(f)]; variable != "" {
			s := describeVariable(f, tag, variable, variables)
			s.Of = filepath.ToSlash(dir) + "." + name
			all = append(all, s)
			continue
		}
		inner, innerName := r.structOrigin(file, dir, f.Type)
		if inner == "" || !isExported(f) {
			continue
		}
		innerSettings, err := r.readStruct(inner, innerName, prefix+prefixOfField)
		if err != nil {
			return nil, err
		}
		all = append(all, innerSettings...)
	}
	// NAME_FILE is left out: the documents say once that every secret can be read from a file.
	return slices.DeleteFunc(all, func(s Setting) bool {
		return strings.HasSuffix(s.Name, "_FILE") && slices.ContainsFunc(all, func(o Setting) bool { return o.Name+"_FILE" == s.Name })
	}), nil
}

// findStruct parses the files of a package until it finds the declaration of a struct.
func (r configReader) findStruct(dir, name string) (*ast.File, *ast.StructType, error) {
	paths, err := filepath.Glob(filepath.Join(r.root, dir, "*.go"))
	if err != nil {
		return nil, nil, fmt.Errorf("find the sources of %s: %w", dir, err)
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, fmt.Errorf("read settings: %w", err)
		}
		for _, decl := range file.Decls {
			general, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range general.Specs {
				t, ok := spec.(*ast.TypeSpec)
				if !ok || t.Name.Name != name {
					continue
				}
				if s, ok := t.Type.(*ast.StructType); ok {
					return file, s, nil
				}
			}
		}
	}
	return nil, nil, fmt.Errorf("%s declares no struct %s", dir, name)
}

// structOrigin returns the folder and name of the struct that is a field's type. For types outside
// the checkout, the folder is "".
func (configReader) structOrigin(file *ast.File, dir string, t ast.Expr) (folder, name string) {
	switch t := t.(type) {
	case *ast.Ident:
		if t.IsExported() {
			return dir, t.Name
		}
	case *ast.SelectorExpr:
		pkg, ok := t.X.(*ast.Ident)
		if !ok {
			return "", ""
		}
		for _, imported := range file.Imports {
			path := strings.Trim(imported.Path.Value, `"`)
			if local, found := strings.CutPrefix(path, module); found && filepath.Base(path) == pkg.Name {
				return local, t.Sel.Name
			}
		}
	}
	return "", ""
}

func isExported(f *ast.Field) bool { return len(f.Names) == 0 || f.Names[0].IsExported() }

func fieldName(f *ast.Field) string {
	if len(f.Names) == 0 {
		return ""
	}
	return f.Names[0].Name
}

// tagOf returns a field's tag, and the prefix in it for the variables of the field's struct.
func tagOf(f *ast.Field) (tag reflect.StructTag, prefix string) {
	if f.Tag == nil {
		return "", ""
	}
	tag = reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
	return tag, tagOption(tag, "prefix=")
}

// variablesByField returns, by the names of a struct's own fields, the names of their variables.
func variablesByField(t *ast.StructType, prefix string) map[string]string {
	found := map[string]string{}
	for _, f := range t.Fields.List {
		tag, _ := tagOf(f)
		if name, _, _ := strings.Cut(tag.Get("env"), ","); name != "" {
			found[fieldName(f)] = prefix + name
		}
	}
	return found
}

// defaultOption is the option with the value of an absent variable. As for go-envconfig, it is the last
// one, since its value may have commas.
const defaultOption = "default="

// tagOption returns the value of an option in the tag env, such as default=… or prefix=….
func tagOption(tag reflect.StructTag, name string) string {
	_, options, _ := strings.Cut(tag.Get("env"), ",")
	for options != "" {
		o, rest, _ := strings.Cut(options, ",")
		if o = strings.TrimSpace(o); strings.HasPrefix(o, defaultOption) {
			o, rest = strings.TrimSpace(options), ""
		}
		if value, ok := strings.CutPrefix(o, name); ok {
			return value
		}
		options = rest
	}
	return ""
}

func describeVariable(f *ast.Field, tag reflect.StructTag, variable string, siblings map[string]string) Setting {
	return Setting{
		Name: variable, Takes: acceptedValues(f.Type, tag), Default: tagOption(tag, defaultOption),
		Required: strings.Contains(tag.Get("env"), ", required"),
		Meaning:  describeField(fieldName(f), f.Doc.Text(), siblings),
		Type:     typeText(f.Type), Min: tag.Get("min"), Max: tag.Get("max"), OneOf: strings.Fields(tag.Get("oneof")),
	}
}

// acceptedValues returns a text that says which values a variable accepts.
func acceptedValues(t ast.Expr, tag reflect.StructTag) string {
	if set := tag.Get("oneof"); set != "" {
		kind := strings.Join(strings.Fields(set), ", ")
		if typeText(t) == "[]string" {
			return "list of " + kind
		}
		return kind
	}
	words := map[string]string{
		"string": "text", "bool": "true or false", "time.Duration": "duration", "config.Secret": "**secret**",
		"[]string": "list", "map[string]config.Secret": "**secrets** by name", "float64": "number",
	}
	kind := words[typeText(t)]
	if kind == "" {
		kind = "whole number"
	}
	low, high := tag.Get("min"), tag.Get("max")
	switch {
	case low != "" && high != "":
		return kind + ", " + low + " to " + high
	case low != "":
		return kind + ", from " + low
	default:
		return kind
	}
}

// typeText returns a type as Go source text, such as []string or time.Duration.
func typeText(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.Ident:
		return t.Name
	case *ast.SelectorExpr:
		return typeText(t.X) + "." + t.Sel.Name
	case *ast.ArrayType:
		return "[]" + typeText(t.Elt)
	case *ast.MapType:
		return "map[" + typeText(t.Key) + "]" + typeText(t.Value)
	default:
		return fmt.Sprintf("%T", t)
	}
}

var verb = regexp.MustCompile(`^(is|are) `)

// describeField makes the description of a setting from its field's comment, without the field's
// name at the beginning. It replaces the names of other fields by those of their variables.
func describeField(field, comment string, siblings map[string]string) string {
	text := strings.Join(strings.Fields(comment), " ")
	if rest, ok := strings.CutPrefix(text, field+" "); ok {
		text = verb.ReplaceAllString(rest, "")
	}
	for name, variable := range siblings {
		text = regexp.MustCompile(`\b`+name+`\b`).ReplaceAllString(text, "`"+variable+"`")
	}
	return strings.TrimSuffix(text, ".")
}
