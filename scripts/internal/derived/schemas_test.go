package derived_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/internal/derived"
	"urr.guru/scripts/internal/settings"
)

const defs = `{
  "common": {"type": "object", "properties": {"replicas": {"$ref": "#/$defs/count"}}},
  "complete": {"required": ["replicas"]},
  "count": {"type": "integer"}, "unused": {"type": "string"},
  "global": {"type": "object"}, "kafka": {"type": "object"},
  "callers": {"type": "array"}, "call": {"type": "object"}, "optionalCall": {"type": "object"}, "secret": {"type": "object"},
  "queue": {"type": "object"}, "duration": {"type": "string"}
}`

// shared is the values.yaml of the library.
const shared = `
exports:
  defaults: {replicas: 2, serves: grpc, rpc: {secretPrefix: p, callers: [], calls: {}}, secrets: {}, config: {}}
  kafka: {kafka: {brokers: []}}
  queues: {queues: {}}
  redis: {redis: {}}
`

const values = `
rpc: {callers: [a], calls: {b: {}, c: {}}}
secrets: {KEY: {}}
config: {X: 1}
`

// own is the chart's schema.json. It restricts what the schema would be by the Config alone.
const own = `{"config": {"properties": {"X": {"minimum": 3}, "TEXT": {"pattern": "^a"}}}}`

// template is the library's template of environment variables. It sets ADDR.
const template = "{{ define }}\nADDR: a\n{{ end }}\n"

// services are the services that have a chart.
var services = []settings.Service{{
	Name: "promo", Calls: map[string]bool{"b": false, "c": true},
	Settings: []settings.Setting{
		{Name: "X", Type: "int", Min: "1", Max: "5", Meaning: "how many"},
		{Name: "RATE", Type: "float64", Min: "0.5"},
		{Name: "ON", Type: "bool"},
		{Name: "TEXT", Type: "string"},
		{Name: "MODE", Type: "string", OneOf: []string{"this", "that"}},
		{Name: "LIST", Type: "[]string", OneOf: []string{"this", "that"}},
		{Name: "WAIT", Type: "time.Duration", Takes: "duration, 1s to 1h", Meaning: "the pause"},
		{Name: "ADDR", Type: "string"}, {Name: "ORDERS_QUEUE_URL", Type: "string"},
		{Name: "B_ADDR", Type: "string", Of: "pkg/rpc.Peer"}, {Name: "C_ADDR", Type: "string", Of: "pkg/rpc.OptionalPeer"},
		{Name: "KEY", Type: "config.Secret"}, {Name: "KEYS", Type: "map[string]config.Secret"},
	},
}}

// write creates a folder with three charts: the library, a service that imports blocks of its
// values, and the umbrella.
func write(t *testing.T, imports, values, ownSchema string) string {
	t.Helper()
	dir := t.TempDir()
	for path, text := range map[string]string{
		"urr-lib/defs.json": defs, "urr-lib/values.yaml": shared, "urr-lib/templates/_environment.tpl": template,
		"promo/Chart.yaml":  "dependencies: [{name: urr-lib, import-values: [" + imports + "]}]",
		"promo/values.yaml": values, "promo/schema.json": ownSchema,
		"urr/Chart.yaml": "dependencies: [{name: urr-lib}, {name: promo}]", "urr/values.yaml": "{}", "urr/schema.json": "{}",
	} {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

func TestServiceSchema(t *testing.T) {
	t.Parallel()
	dir := write(t, "defaults, kafka", values, own)
	require.NoError(t, derived.WriteSchemas(dir, services))
	raw, err := os.ReadFile(filepath.Join(dir, "promo", "values.schema.json"))
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, json.Unmarshal(raw, &schema))
	delete(schema, "$schema")
	delete(schema, "$comment")
	delete(schema, "$defs")
	got, err := json.Marshal(schema)
	require.NoError(t, err)
	require.JSONEq(t, `{
	  "title": "Values of the chart promo", "type": "object", "$ref": "#/$defs/common",
	  "propertyNames": {"enum": ["config", "kafka", "replicas", "rpc", "secrets", "serves"]},
	  "dependentSchemas": {
	    "urr-lib": {"$ref": "#/$defs/complete", "required": ["config", "kafka", "rpc", "secrets", "serves"]}
	  },
	  "properties": {
	    "config": {"type": "object", "additionalProperties": false, "properties": {
	      "X": {"type": "integer", "minimum": 3, "maximum": 5, "description": "how many"},
	      "RATE": {"type": "number", "minimum": 0.5, "description": ""},
	      "ON": {"type": "boolean", "description": ""},
	      "TEXT": {"type": "string", "pattern": "^a", "description": ""},
	      "MODE": {"type": "string", "enum": ["this", "that"], "description": ""},
	      "LIST": {"type": "array", "items": {"type": "string", "enum": ["this", "that"]}, "description": ""},
	      "WAIT": {"$ref": "#/$defs/duration", "description": "the pause; 1s to 1h"}
	    }},
	    "kafka": {"$ref": "#/$defs/kafka"},
	    "rpc": {
	      "type": "object", "additionalProperties": false,
	      "properties": {
	        "callers": {"$ref": "#/$defs/callers"},
	        "calls": {
	          "type": "object", "additionalProperties": false, "required": ["b", "c"],
	          "properties": {"b": {"$ref": "#/$defs/call"}, "c": {"$ref": "#/$defs/optionalCall"}}
	        },
	        "secretPrefix": {"type": "string", "minLength": 1}
	      }
	    },
	    "secrets": {
	      "type": "object", "additionalProperties": false, "required": ["KEY"], "properties": {"KEY": {"$ref": "#/$defs/secret"}}
	    },
	    "serves": {"const": "grpc"}
	  }
	}`, string(got))
	require.Contains(t, string(raw), `"count": {"type":"integer"}`, "a definition that another one refers to")
	require.NotContains(t, string(raw), "unused")
}

func TestSchemaOfServiceThatAcceptsNoCalls(t *testing.T) {
	t.Parallel()
	dir := write(t, "defaults, queues", "serves: none\nqueues: {orders: {}}", "{}")
	files, err := derived.Schemas(dir, services)
	require.NoError(t, err)
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	require.NoError(t, json.Unmarshal(files[filepath.Join(dir, "promo", "values.schema.json")], &schema))
	require.JSONEq(t, `{"const": "none"}`, string(schema.Properties["serves"]))
	require.Contains(t, string(schema.Properties["rpc"]), `"callers":{"maxItems":0,"type":"array"}`)
	require.JSONEq(t, `{"properties": {"from": {"type": "array", "maxItems": 0}}}`, string(schema.Properties["networkPolicy"]))
	require.JSONEq(t, `{
	  "type": "object", "additionalProperties": false, "required": ["orders"], "properties": {"orders": {"$ref": "#/$defs/queue"}}
	}`, string(schema.Properties["queues"]))
}

func TestUnknownImportIsAnError(t *testing.T) {
	t.Parallel()
	_, err := derived.Schemas(write(t, "defaults, kafak", values, own), services)
	require.ErrorContains(t, err, "schema of chart promo: import-values of Chart.yaml has kafak, which urr-lib/values.yaml does not export")
}

func TestUmbrellaSchemaNamesItsDependencies(t *testing.T) {
	t.Parallel()
	dir := write(t, "defaults", values, own)
	files, err := derived.Schemas(dir, services)
	require.NoError(t, err)
	var schema struct {
		AdditionalProperties *bool
		Required             []string
		Properties           map[string]any
	}
	require.NoError(t, json.Unmarshal(files[filepath.Join(dir, "urr", "values.schema.json")], &schema))
	require.False(t, *schema.AdditionalProperties)
	require.Equal(t, []string{"global"}, schema.Required)
	require.Contains(t, schema.Properties, "promo")
	require.Contains(t, schema.Properties, "urr-lib")
}

func TestUnknownDefinitionIsAnError(t *testing.T) {
	t.Parallel()
	_, err := derived.Schemas(write(t, "defaults", values, `{"config": {"$ref": "#/$defs/nonsense"}}`), services)
	require.ErrorContains(t, err, "schema of chart promo: urr-lib/defs.json does not define #/$defs/nonsense")
}
