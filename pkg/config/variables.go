package config

import (
	"reflect"
	"slices"
	"strings"
)

// Variables lists the variables that fill a C, in the order of its fields: what a chart may set.
// Each of Secrets may also be set as a file.
func Variables[C any]() []string {
	return names(walk(reflect.TypeFor[C]()), func(variable) bool { return true })
}

// Secrets lists those of Variables that are secrets.
func Secrets[C any]() []string { return names(walk(reflect.TypeFor[C]()), variable.secret) }

func names(all []variable, wanted func(variable) bool) []string {
	var some []string
	for _, v := range all {
		if wanted(v) {
			some = append(some, v.name)
		}
	}
	return some
}

// variable is an environment variable that fills a field.
type variable struct {
	name  string
	field reflect.StructField
	at    []int // index of the field, from the outermost struct
}

func (v variable) secret() bool { return leafType(v.field.Type) == secretType }

func (v variable) file(path string) File {
	return File{Variable: v.name, Path: path, folder: v.field.Type.Kind() == reflect.Map}
}

func walk(t reflect.Type) []variable { return walkFrom(t, "", nil) }

func walkFrom(t reflect.Type, prefix string, at []int) []variable {
	var found []variable
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("env"), ",")
		name = strings.TrimSpace(name)
		here := append(slices.Clone(at), i)
		switch {
		case name != "":
			found = append(found, variable{prefix + name, f, here})
		case f.Type.Kind() == reflect.Struct:
			found = append(found, walkFrom(f.Type, prefix+prefixOf(opts), here)...)
		}
	}
	return found
}
