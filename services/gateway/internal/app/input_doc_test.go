package app_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/gateway/internal/edge"
)

// reference is the part of /docs/openapi.json that the tests need: the parameters and the body's
// fields of every route.
type reference struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]schema }
}

type operation struct {
	Parameters []struct {
		Name, In string
		Schema   schema
	}
	RequestBody *struct {
		Required bool
		Content  map[string]struct{ Schema schema }
	}
}

type schema struct {
	Ref        string `json:"$ref"`
	Type       string
	Items      *schema
	Properties map[string]schema
}

// described is the input of a route as the API reference describes it.
type described struct {
	// members are the fields of the JSON body; nil if the route has no JSON body.
	members map[string]schema
	// needsBody means that the body is required.
	needsBody bool
	// numbers are the integer parameters of the query.
	numbers []string
}

func readReference(t *testing.T, w *fixture) reference {
	t.Helper()
	var doc reference
	rec := w.do(http.MethodGet, "/docs/openapi.json", "", nil)
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &doc))
	require.NotEmpty(t, doc.Paths)
	return doc
}

// documentedPath returns the path of a route as written in the API reference.
func documentedPath(r *edge.Route) string {
	return strings.NewReplacer("event_id", "eventId", "request_id", "requestId", "reservation_id", "reservationId",
		"ticket_id", "ticketId", "payment_id", "paymentId", "allocation_id", "allocationId",
		"refund_id", "refundId", "transfer_id", "transferId", "batch_id", "batchId", "difference_id", "differenceId",
		"plan_id", "planId", "membership_id", "membershipId", "version_id", "versionId").Replace(r.Pattern)
}

func (d reference) describe(r *edge.Route) described {
	var out described
	op := d.Paths[documentedPath(r)][strings.ToLower(r.Method)]
	if op.RequestBody != nil {
		out.needsBody = op.RequestBody.Required
		if out.members = d.resolve(op.RequestBody.Content["application/json"].Schema).Properties; out.members == nil {
			out.members = map[string]schema{}
		}
	}
	for _, p := range op.Parameters {
		if p.In == "query" && p.Schema.Type == "integer" {
			out.numbers = append(out.numbers, p.Name)
		}
	}
	return out
}

func (d reference) resolve(s schema) schema {
	if s.Ref == "" {
		return s
	}
	return d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
}

// wrongType is a value of the wrong type for a field, with the path of the part that is wrong.
type wrongType struct{ value, path string }

// wrongTypes returns values that do not fit a schema.
func (d reference) wrongTypes(s schema) []wrongType {
	s = d.resolve(s)
	scalars := func(values ...string) []wrongType {
		out := make([]wrongType, len(values))
		for i, v := range values {
			out[i] = wrongType{value: v}
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
		for _, m := range d.wrongTypes(*s.Items) {
			out = append(out, wrongType{"[" + m.value + "]", "[0]" + m.path})
		}
		return out
	default: // an object
		out := scalars(`"x"`, `7`, `[]`)
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			for _, m := range d.wrongTypes(s.Properties[name]) {
				out = append(out, wrongType{`{"` + name + `":` + m.value + `}`, "." + name + m.path})
			}
		}
		return out
	}
}
