// Package config fills a struct from environment variables (sethvargo/go-envconfig tags) and
// reports every problem at once, one line per variable, so that an operator can fix a chart in one
// step.
//
// Besides `env`, three tags bound a value: `min:"1"` and `max:"100"` (numbers and durations,
// inclusive) and `oneof:"debug info"`. Checks that involve several variables belong in a Validate
// method, which creates its errors with Invalid and Missing.
//
// A variable X of type Secret, or of a map of Secrets, may be given as a file instead: the variable
// X_FILE then has the path of the file.
package config

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/sethvargo/go-envconfig"
)

// Load fills a C from the process's environment; an empty variable counts as not set. When *C or a
// struct inside it has a method Validate() error, it is called once every variable is well-formed.
// The error lists every problem, one per line:
//
//	QUEUE_THRESHOLD="abc": must be a whole number ≥ 1
func Load[C any](ctx context.Context) (*C, error) {
	return LoadFrom[C](ctx, nil)
}

// LoadFrom fills a C from a map of variables instead of the environment (nil: from the
// environment). Tests use it to check that a chart's values start the service.
func LoadFrom[C any](ctx context.Context, env map[string]string) (*C, error) {
	lookuper := envconfig.OsLookuper()
	if env != nil {
		lookuper = envconfig.MapLookuper(env)
	}
	return load[C](ctx, configLoader{lookuper: emptyAsAbsent{lookuper}})
}

// LoadWith is like Load, but takes the contents of secret files from contents, keyed by variable.
func LoadWith[C any](ctx context.Context, contents map[string]Secret) (*C, error) {
	return load[C](ctx, configLoader{lookuper: emptyAsAbsent{envconfig.OsLookuper()}, contents: contents})
}

func load[C any](ctx context.Context, l configLoader) (*C, error) {
	c := new(C)
	v := reflect.ValueOf(c).Elem()
	if v.Kind() != reflect.Struct {
		return nil, fmt.Errorf("config: %T is not a struct", *c)
	}
	l.fillFields(ctx, v)
	if len(l.problems) > 0 {
		return nil, errors.Join(l.problems...)
	}
	if err := validate(v); err != nil {
		return nil, err
	}
	return c, nil
}

func validate(v reflect.Value) error {
	var problems []error
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Struct && v.Type().Field(i).IsExported() {
			problems = append(problems, validate(f))
		}
	}
	if val, ok := v.Addr().Interface().(interface{ Validate() error }); ok {
		problems = append(problems, val.Validate())
	}
	return errors.Join(problems...)
}

// Invalid makes the error of a variable with a wrong value. Its text has the name, the value (a
// Secret prints as ***) and want, which says what is valid, such as "must be a host:port".
func Invalid(variable string, value any, want string) error {
	return fmt.Errorf("%s=%q: %s", variable, fmt.Sprint(value), want)
}

// Missing makes the error of a variable without a value; want says what it must be.
func Missing(variable, want string) error {
	return fmt.Errorf("%s is not set: %s", variable, want)
}

// emptyAsAbsent treats an empty variable as not set: charts and compose files write empty variables
// for values that are not given, and an empty required variable must fail the start.
type emptyAsAbsent struct{ envconfig.Lookuper }

func (f emptyAsAbsent) Lookup(key string) (string, bool) {
	v, ok := f.Lookuper.Lookup(key)
	return v, ok && v != ""
}

type configLoader struct {
	lookuper envconfig.Lookuper
	contents map[string]Secret // known contents of secret files, by variable; other files are read
	problems []error
}

// fillFields sets the fields of a struct, each by its own call of envconfig: given the whole
// struct, envconfig would stop at the first problem.
func (l *configLoader) fillFields(ctx context.Context, c reflect.Value) {
	for _, v := range variablesOf(c.Type()) {
		l.setField(ctx, c.FieldByIndex(v.index), v)
	}
}

func (l *configLoader) setField(ctx context.Context, dst reflect.Value, v variable) {
	v.field.Anonymous = false
	lookuper := l.lookuper
	if v.prefix != "" {
		lookuper = envconfig.PrefixLookuper(v.prefix, lookuper)
	}
	content, found, err := l.readSecretFile(v)
	if err != nil {
		l.problems = append(l.problems, err)
		return
	}
	name := strings.TrimPrefix(v.name, v.prefix)
	if found {
		lookuper = envconfig.MapLookuper(map[string]string{name: content.Reveal()})
	}
	single := reflect.New(reflect.StructOf([]reflect.StructField{v.field}))
	err = envconfig.ProcessWith(ctx, &envconfig.Config{Target: single.Interface(), Lookuper: lookuper})
	value := single.Elem().Field(0)
	raw, _ := lookuper.Lookup(name)
	switch {
	case errors.Is(err, envconfig.ErrMissingRequired):
		l.problems = append(l.problems, Missing(v.name, "it is required"))
		return
	case err == nil && withinBounds(value, v.field):
		dst.Set(value)
		return
	case err == nil && raw == "":
		raw = fmt.Sprint(value.Interface()) // the variable is not set and has no default: its zero value is invalid
	}
	l.problems = append(l.problems, Invalid(v.name, redact(raw, v.field.Type), describeType(v.field)))
}

func (l *configLoader) readSecretFile(v variable) (content Secret, found bool, err error) {
	path, given := l.lookuper.Lookup(v.name + FileSuffix)
	if !given || !v.isSecret() {
		return "", false, nil
	}
	if _, both := l.lookuper.Lookup(v.name); both {
		return "", false, fmt.Errorf("%s and %s are both set: one of them must go", v.name, v.name+FileSuffix)
	}
	if content, found = l.contents[v.name]; found {
		return content, true, nil
	}
	content, err = v.file(path).Read()
	return content, err == nil, err
}

func prefixOption(envTag string) string {
	for opt := range strings.SplitSeq(envTag, ",") {
		if p, ok := strings.CutPrefix(strings.TrimSpace(opt), "prefix="); ok {
			return p
		}
	}
	return ""
}
