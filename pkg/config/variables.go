package config

import (
	"reflect"
	"slices"
	"strings"
)

// Variables lists the environment variables that fill a C, in the order of the fields. A chart may
// set each of them. A variable that holds a secret may also be given as a file.
func Variables[C any]() []string { return variableNames(variablesOf(reflect.TypeFor[C]())) }

// Secrets lists the environment variables of a C that hold secrets.
func Secrets[C any]() []string {
	all := variablesOf(reflect.TypeFor[C]())
	return variableNames(slices.DeleteFunc(all, func(v variable) bool { return !v.isSecret() }))
}

func variableNames(variables []variable) []string {
	var names []string
	for _, v := range variables {
		names = append(names, v.name)
	}
	return names
}

// variable is an environment variable and the struct field that it fills.
type variable struct {
	prefix string // added to the name by the enclosing structs
	name   string // in full, with the prefix
	field  reflect.StructField
	index  []int // path to the field, for reflect.Value.FieldByIndex
}

func (v variable) isSecret() bool { return leafType(v.field.Type) == secretType }

func (v variable) file(path string) File {
	return File{Variable: v.name, Path: path, folder: v.field.Type.Kind() == reflect.Map}
}

// variablesOf returns the variables of a struct and its nested structs.
func variablesOf(t reflect.Type) []variable { return appendVariables(nil, t, "", nil) }

func appendVariables(found []variable, t reflect.Type, prefix string, outer []int) []variable {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("env"), ",")
		name = strings.TrimSpace(name)
		index := append(slices.Clone(outer), i)
		switch {
		case name != "":
			found = append(found, variable{prefix, prefix + name, f, index})
		case f.Type.Kind() == reflect.Struct:
			found = appendVariables(found, f.Type, prefix+prefixOption(opts), index)
		}
	}
	return found
}
