package config

import (
	"cmp"
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

// withinBounds reports whether a value satisfies the tags min, max and oneof of its field. oneof is
// for strings and lists. Items of a list must not be empty; an optional string may be empty.
func withinBounds(v reflect.Value, f reflect.StructField) bool {
	allowedValues, limited := f.Tag.Lookup("oneof")
	allowed := func(s string) bool { return !limited || slices.Contains(strings.Fields(allowedValues), s) }
	if list, ok := v.Interface().([]string); ok {
		return !slices.ContainsFunc(list, func(s string) bool { return s == "" || !allowed(s) })
	}
	if limited && v.Kind() == reflect.String {
		return v.Len() == 0 || allowed(v.String())
	}
	if lo, ok := f.Tag.Lookup("min"); ok && compareBound(v, lo) < 0 {
		return false
	}
	hi, ok := f.Tag.Lookup("max")
	return !ok || compareBound(v, hi) <= 0
}

// compareBound compares v with the bound in a min or max tag and returns −1, 0 or 1. A malformed
// tag is a bug, which the first load of the struct reveals by a panic.
func compareBound(v reflect.Value, bound string) int {
	switch {
	case v.Type() == durationType:
		d, err := time.ParseDuration(bound)
		return compareOrPanic(v.Int(), int64(d), err)
	case v.CanInt():
		n, err := strconv.ParseInt(bound, 10, 64)
		return compareOrPanic(v.Int(), n, err)
	case v.CanUint():
		n, err := strconv.ParseUint(bound, 10, 64)
		return compareOrPanic(v.Uint(), n, err)
	case v.CanFloat():
		n, err := strconv.ParseFloat(bound, 64)
		return compareOrPanic(v.Float(), n, err)
	default:
		panic("config: min and max are for numbers, not " + v.Type().String())
	}
}

func compareOrPanic[N int64 | uint64 | float64](v, bound N, err error) int {
	if err != nil {
		panic("config: bad bound in a struct tag: " + err.Error())
	}
	return cmp.Compare(v, bound)
}

func describeType(f reflect.StructField) (requirement string) {
	var s string
	switch t := f.Type; {
	case f.Tag.Get("oneof") != "":
		allowedValues := strings.Join(strings.Fields(f.Tag.Get("oneof")), ", ")
		if t.Kind() == reflect.Slice {
			return "must be a list of " + allowedValues
		}
		return "must be one of " + allowedValues
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

// redact returns a variable's value for error messages, or *** if its type contains a Secret.
func redact(raw string, t reflect.Type) string {
	if leafType(t) == secretType {
		return Secret(raw).String()
	}
	return raw
}

// leafType returns the type of the elements of a list or map, or of what a pointer points to.
func leafType(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Map || t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}
