package charts_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var schemaFiles sync.Mutex // held while schemas are written

// writeSchemas creates a JSON schema for every kind of the Kubernetes that scripts/cluster builds.
// It uses the OpenAPI document in the module of its source: the version is the same, and nothing is
// downloaded. The schemas are kept under .urr/schemas.
func writeSchemas(t *testing.T, b fixture) string {
	t.Helper()
	schemaFiles.Lock()
	defer schemaFiles.Unlock()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "k8s.io/kubernetes")
	cmd.Dir = filepath.Join(b.layout.Root, "scripts", "cluster", "src")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	require.NoError(t, err)
	var module struct{ Version, Dir string }
	require.NoError(t, json.Unmarshal(out, &module))
	dir := b.layout.Shared("schemas", module.Version)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	var document struct {
		Definitions map[string]map[string]any `json:"definitions"`
	}
	require.NoError(t, json.Unmarshal([]byte(read(t, filepath.Join(module.Dir, "api", "openapi-spec", "swagger.json"))), &document))
	for name, definition := range document.Definitions {
		closeObjects(name, definition)
	}
	fresh := dir + ".new" // gets its final name when it is complete
	require.NoError(t, os.RemoveAll(fresh))
	require.NoError(t, os.MkdirAll(fresh, 0o755))
	for name, definition := range document.Definitions {
		kinds, _ := definition["x-kubernetes-group-version-kind"].([]any)
		if len(kinds) != 1 { // a nested type has none, and a shared response type has several
			continue
		}
		kind, ok := kinds[0].(map[string]any)
		require.True(t, ok)
		if kind["group"] == "" { // in kubeconform, the name of the core group is v1
			kind["group"] = kind["version"]
		}
		raw, err := json.Marshal(selfContained(name, document.Definitions))
		require.NoError(t, err)
		file := strings.ToLower(fmt.Sprintf("%v-%v-%v.json", kind["kind"], kind["group"], kind["version"]))
		require.NoError(t, os.WriteFile(filepath.Join(fresh, file), raw, 0o644))
	}
	require.NoError(t, os.Rename(fresh, dir))
	return dir
}

// closeObjects makes an OpenAPI definition a JSON schema that forbids undeclared fields.
func closeObjects(name string, definition map[string]any) {
	if strings.HasSuffix(name, ".IntOrString") || strings.HasSuffix(name, ".Quantity") {
		definition["type"] = []string{"string", "number"}
		delete(definition, "format")
	}
	if _, described := definition["properties"]; described {
		definition["additionalProperties"] = false
	}
}

// selfContained returns the schema of a definition with all definitions that it refers to.
func selfContained(name string, all map[string]map[string]any) map[string]any {
	needed := map[string]any{}
	var need func(v any)
	need = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				target := strings.TrimPrefix(ref, "#/definitions/")
				if _, known := needed[target]; !known {
					needed[target] = all[target]
					need(all[target])
				}
			}
			for _, member := range v {
				need(member)
			}
		case []any:
			for _, item := range v {
				need(item)
			}
		}
	}
	root := "#/definitions/" + name
	need(map[string]any{"$ref": root})
	return map[string]any{"$schema": "http://json-schema.org/draft-07/schema#", "$ref": root, "definitions": needed}
}
