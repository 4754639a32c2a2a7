package e2e_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
)

// document is what the test needs of /docs/openapi.json: every route with its parameters and members.
type document struct {
	Paths       map[string]map[string]operation
	Definitions map[string]schema
}

type operation struct {
	Who        string `json:"x-urr-who"`
	Parameters []struct {
		Name, In, Type string
		Schema         *schema
	}
}

type schema struct {
	Ref        string `json:"$ref"`
	Type       string
	Format     string
	Items      *schema
	Properties map[string]schema
}

// documented is one route as the platform itself describes it.
type documented struct {
	name, method, path, who string
	// members of the body, nil where the route takes none.
	members map[string]schema
	// numbers are the query's parameters that are integers.
	numbers []string
}

// routes reads the reference of a running gateway.
func routes(t *testing.T, p *harness.Platform) (map[string]documented, document) {
	t.Helper()
	var doc document
	p.Visitor().Must(t.Context(), http.MethodGet, "/docs/openapi.json", nil, &doc)
	all := map[string]documented{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			r := documented{method: strings.ToUpper(method), path: path, who: op.Who}
			r.name = r.method + " " + path
			for _, param := range op.Parameters {
				switch {
				case param.In == "body":
					r.members = doc.resolve(*param.Schema).Properties
					if r.members == nil {
						r.members = map[string]schema{}
					}
				case param.In == "query" && param.Type == "integer":
					r.numbers = append(r.numbers, param.Name)
				}
			}
			all[r.name] = r
		}
	}
	require.Greater(t, len(all), 35)
	return all, doc
}

func (d document) resolve(s schema) schema {
	if s.Ref == "" {
		return s
	}
	return d.Definitions[strings.TrimPrefix(s.Ref, "#/definitions/")]
}

// misfit is a value of another type than a member has, with the path of what is wrong inside it.
type misfit struct{ value, path string }

// misfits are values that a member of this schema cannot have.
func (d document) misfits(s schema) []misfit {
	s = d.resolve(s)
	scalars := func(values ...string) []misfit {
		out := make([]misfit, len(values))
		for i, v := range values {
			out[i] = misfit{value: v}
		}
		return out
	}
	switch s.Type {
	case "integer":
		return scalars(`"7"`, `7.5`, `7.0`, `1e30`, `true`, `[7]`, `{}`)
	case "number":
		return scalars(`"7"`, `true`, `{}`)
	case "boolean":
		return scalars(`"true"`, `1`, `[]`)
	case "string":
		return scalars(`7`, `true`, `["x"]`, `{}`)
	case "array":
		out := scalars(`"x"`, `7`, `{"0":"x"}`)
		for _, m := range d.misfits(*s.Items) {
			out = append(out, misfit{"[" + m.value + "]", "[0]" + m.path})
		}
		return out
	default: // an object
		out := scalars(`"x"`, `7`, `[]`)
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			for _, m := range d.misfits(s.Properties[name]) {
				out = append(out, misfit{`{"` + name + `":` + m.value + `}`, "." + name + m.path})
			}
		}
		return out
	}
}

// changed is a JSON object with one member set to a raw value, or without it when the value is "".
func changed(t *testing.T, body, member, value string) string {
	t.Helper()
	object := map[string]json.RawMessage{}
	require.NoError(t, json.Unmarshal([]byte(body), &object), body)
	delete(object, member)
	if value != "" {
		object[member] = json.RawMessage(value)
	}
	out, err := json.Marshal(object)
	require.NoError(t, err)
	return string(out)
}
