// Package config fills a struct from environment variables (sethvargo/go-envconfig tags) and says
// in one line per variable what is wrong with it. Every problem is reported at once, so that an
// operator fixes a chart in one go.
//
// Beside `env`, three tags bound a value: `min:"1"` and `max:"100"` (numbers and durations,
// inclusive) and `oneof:"debug info"`. What needs more than one variable is checked by a Validate
// method, with Bad for its errors.
//
// A Secret X, or a map of them, may be given as a file instead: X_FILE names it.
package config

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/sethvargo/go-envconfig"
)

// Load fills a C from the process's environment; a variable without content counts as not set. When
// *C has a method Validate() error, it is called once every variable is well-formed. The error
// lists every problem, a line each, as
//
//	QUEUE_THRESHOLD="abc": must be a whole number ≥ 1
func Load[C any](ctx context.Context) (*C, error) {
	return LoadFrom[C](ctx, nil)
}

// LoadFrom is Load from a map instead of the environment (nil = the environment): how a test proves
// that a chart's values start the service.
func LoadFrom[C any](ctx context.Context, env map[string]string) (*C, error) {
	look := envconfig.OsLookuper()
	if env != nil {
		look = envconfig.MapLookuper(env)
	}
	return load[C](ctx, loader{look: filled{look}})
}

// LoadWith is Load with contents, by variable, in place of what the files of secrets hold.
func LoadWith[C any](ctx context.Context, contents map[string]Secret) (*C, error) {
	return load[C](ctx, loader{look: filled{envconfig.OsLookuper()}, contents: contents})
}

func load[C any](ctx context.Context, l loader) (*C, error) {
	c := new(C)
	v := reflect.ValueOf(c).Elem()
	if v.Kind() != reflect.Struct {
		return nil, fmt.Errorf("config: %T is not a struct", *c)
	}
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

// Bad is one problem: the variable, its value (a Secret prints as ***) and what would be right, as
// "must be a host:port".
func Bad(variable string, value any, want string) error {
	return fmt.Errorf("%s=%q: %s", variable, fmt.Sprint(value), want)
}

// Missing is the problem of a variable without a value, with what it is for.
func Missing(variable, want string) error {
	return fmt.Errorf("%s is not set: %s", variable, want)
}

// filled takes an empty variable for an absent one: charts and compose files write those where a
// value is not given, and an empty required one must stop the start.
type filled struct{ envconfig.Lookuper }

// Lookup implements envconfig.Lookuper.
func (f filled) Lookup(key string) (string, bool) {
	v, ok := f.Lookuper.Lookup(key)
	return v, ok && v != ""
}

type loader struct {
	look     envconfig.Lookuper
	contents map[string]Secret // of files, by variable; what is missing is read
	problems []error
}

// fill hands every tagged leaf to envconfig by itself: given the whole struct, envconfig would stop
// at the first problem.
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
	look := l.look
	if prefix != "" {
		look = envconfig.PrefixLookuper(prefix, look)
	}
	content, found, err := l.fromFile(variable{name: prefix + name, field: f})
	if err != nil {
		l.problems = append(l.problems, err)
		return
	}
	if found {
		look = envconfig.MapLookuper(map[string]string{name: content.Reveal()})
	}
	one := reflect.New(reflect.StructOf([]reflect.StructField{f}))
	err = envconfig.ProcessWith(ctx, &envconfig.Config{Target: one.Interface(), Lookuper: look})
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

// fromFile is the content of a secret that is given as a file.
func (l *loader) fromFile(v variable) (content Secret, found bool, err error) {
	path, given := l.look.Lookup(v.name + FileSuffix)
	if !given || !v.secret() {
		return "", false, nil
	}
	if _, both := l.look.Lookup(v.name); both {
		return "", false, fmt.Errorf("%s and %s are both set: one of them must go", v.name, v.name+FileSuffix)
	}
	if content, found = l.contents[v.name]; found {
		return content, true, nil
	}
	content, err = v.file(path).Read()
	return content, err == nil, err
}

func prefixOf(opts string) string {
	for opt := range strings.SplitSeq(opts, ",") {
		if p, ok := strings.CutPrefix(strings.TrimSpace(opt), "prefix="); ok {
			return p
		}
	}
	return ""
}
