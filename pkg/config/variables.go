package config

import (
	"reflect"
	"strings"
)

// Variables lists the names that a C is filled from, in the order of its fields: what a chart may set.
func Variables[C any]() []string { return variables(reflect.TypeFor[C](), "") }

func variables(t reflect.Type, prefix string) []string {
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("env"), ",")
		name = strings.TrimSpace(name)
		switch {
		case name != "":
			names = append(names, prefix+name)
		case f.Type.Kind() == reflect.Struct:
			names = append(names, variables(f.Type, prefix+prefixOf(opts))...)
		}
	}
	return names
}
