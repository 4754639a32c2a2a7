// Package config fills a struct from environment variables (sethvargo/go-envconfig tags) and says in one line per variable what is
// wrong with it. Every problem is reported at once, so that an operator fixes a chart in one go.
//
// Beside `env`, three tags bound a value: `min:"1"` and `max:"100"` (numbers and durations, inclusive) and `oneof:"debug info"`.
// What needs more than one variable is checked by a Validate method, with Bad for its errors.
package config

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/sethvargo/go-envconfig"
)

// Load fills a C from the process's environment; a variable without content counts as not set. When *C has a method Validate() error, it is called once every variable is well-formed.
// The error lists every problem, a line each, as
//
//	QUEUE_THRESHOLD="abc": must be a whole number ≥ 1
func Load[C any](ctx context.Context) (*C, error) {
	return LoadFrom[C](ctx, nil)
}

// LoadFrom is Load from a map instead of the environment (nil = the environment): how a test proves that a chart's values start the
// service.
func LoadFrom[C any](ctx context.Context, env map[string]string) (*C, error) {
	look := envconfig.OsLookuper()
	if env != nil {
		look = envconfig.MapLookuper(env)
	}
	look = filled{look}
	c := new(C)
	v := reflect.ValueOf(c).Elem()
	if v.Kind() != reflect.Struct {
		return nil, fmt.Errorf("config: %T is not a struct", *c)
	}
	l := loader{look: look}
	l.fill(ctx, v, "")
	if len(l.problems) > 0 {
		return nil, errors.Join(l.problems...)
	}
	if val, ok := any(c).(interface{ Validate() error }); ok {
		if err := val.Validate(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Bad is one problem: the variable, its value (a Secret prints as ***) and what would be right, as "must be a host:port".
func Bad(variable string, value any, want string) error {
	return fmt.Errorf("%s=%q: %s", variable, fmt.Sprint(value), want)
}

// Missing is the problem of a variable without a value, with what it is for.
func Missing(variable, want string) error {
	return fmt.Errorf("%s is not set: %s", variable, want)
}

// filled takes an empty variable for an absent one: charts and compose files write those where a value is not given, and an empty required
// one must stop the start.
type filled struct{ envconfig.Lookuper }

// Lookup implements envconfig.Lookuper.
func (f filled) Lookup(key string) (string, bool) {
	v, ok := f.Lookuper.Lookup(key)
	return v, ok && v != ""
}

type loader struct {
	look     envconfig.Lookuper
	problems []error
}

// fill hands every tagged leaf to envconfig by itself: given the whole struct, envconfig would stop at the first problem.
func (l *loader) fill(ctx context.Context, v reflect.Value, prefix string) {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("env"), ",")
		name = strings.TrimSpace(name)
		if f.Type.Kind() == reflect.Struct && name == "" {
			l.fill(ctx, v.Field(i), prefix+prefixOf(opts))
			continue
		}
		if name != "" {
			l.leaf(ctx, v.Field(i), f, prefix, name)
		}
	}
}

func (l *loader) leaf(ctx context.Context, dst reflect.Value, f reflect.StructField, prefix, name string) {
	f.Anonymous = false
	one := reflect.New(reflect.StructOf([]reflect.StructField{f}))
	look := l.look
	if prefix != "" {
		look = envconfig.PrefixLookuper(prefix, look)
	}
	err := envconfig.ProcessWith(ctx, &envconfig.Config{Target: one.Interface(), Lookuper: look})
	value := one.Elem().Field(0)
	switch raw, _ := look.Lookup(name); {
	case errors.Is(err, envconfig.ErrMissingRequired):
		l.problems = append(l.problems, Missing(prefix+name, "it is required"))
	case err != nil:
		l.problems = append(l.problems, Bad(prefix+name, show(raw, f.Type), wanted(f)))
	default:
		if !within(value, f) {
			if raw == "" {
				raw = fmt.Sprint(value.Interface()) // a zero without a default
			}
			l.problems = append(l.problems, Bad(prefix+name, show(raw, f.Type), wanted(f)))
			return
		}
		dst.Set(value)
	}
}

func prefixOf(opts string) string {
	for opt := range strings.SplitSeq(opts, ",") {
		if p, ok := strings.CutPrefix(strings.TrimSpace(opt), "prefix="); ok {
			return p
		}
	}
	return ""
}
