package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	durationType = reflect.TypeFor[time.Duration]()
	secretType   = reflect.TypeFor[Secret]()
)

// inBounds checks the tags min, max and oneof, and that no item of a list is empty. The zero value
// of an optional string passes oneof.
func inBounds(v reflect.Value, f reflect.StructField) bool {
	if list, ok := v.Interface().([]string); ok && slices.Contains(list, "") {
		return false
	}
	if set, ok := f.Tag.Lookup("oneof"); ok && v.Kind() == reflect.String {
		return v.Len() == 0 || slices.Contains(strings.Fields(set), v.String())
	}
	for _, bound := range []struct {
		tag string
		ok  func(order int) bool
	}{
		{"min", func(o int) bool { return o >= 0 }},
		{"max", func(o int) bool { return o <= 0 }},
	} {
		if s, ok := f.Tag.Lookup(bound.tag); ok && !bound.ok(compareBound(v, s)) {
			return false
		}
	}
	return true
}

// compareBound compares v with a bound of a tag: −1, 0 or 1. A malformed tag panics: it is a bug
// that the first load of the struct finds.
func compareBound(v reflect.Value, bound string) int {
	switch {
	case v.Type() == durationType:
		d, err := time.ParseDuration(bound)
		return cmpOr(v.Int(), int64(d), err)
	case v.CanInt():
		n, err := strconv.ParseInt(bound, 10, 64)
		return cmpOr(v.Int(), n, err)
	case v.CanUint():
		n, err := strconv.ParseUint(bound, 10, 64)
		return cmpOr(v.Uint(), n, err)
	case v.CanFloat():
		n, err := strconv.ParseFloat(bound, 64)
		return cmpOr(v.Float(), n, err)
	default:
		panic("config: min and max are for numbers, not " + v.Type().String())
	}
}

func cmpOr[N int64 | uint64 | float64](v, bound N, err error) int {
	switch {
	case err != nil:
		panic("config: bad bound in a struct tag: " + err.Error())
	case v < bound:
		return -1
	case v > bound:
		return 1
	default:
		return 0
	}
}

func describeType(f reflect.StructField) string {
	var s string
	switch t := f.Type; {
	case f.Tag.Get("oneof") != "":
		return "must be one of " + strings.Join(strings.Fields(f.Tag.Get("oneof")), ", ")
	case t == durationType:
		s = "must be a duration (as 30s or 5m)"
	case t.Kind() == reflect.Bool:
		return "must be true or false"
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		s = "must be a whole number"
	case t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64:
		s = "must be a number"
	case t.Kind() == reflect.Map:
		return "must be key:value[,key:value…]"
	case t.Kind() == reflect.Slice:
		return "must be a list separated by commas"
	default:
		return "is not well-formed"
	}
	if lo, ok := f.Tag.Lookup("min"); ok {
		s += " ≥ " + lo
	}
	if hi, ok := f.Tag.Lookup("max"); ok {
		if f.Tag.Get("min") != "" {
			s += " and"
		}
		s += " ≤ " + hi
	}
	return s
}

// redact returns the value of a variable for error messages, hidden if its type contains a Secret.
func redact(raw string, t reflect.Type) string {
	if leafType(t) == secretType {
		return Secret(raw).String()
	}
	return raw
}

// leafType is the element type of a list, a map or a pointer.
func leafType(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Map || t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}
