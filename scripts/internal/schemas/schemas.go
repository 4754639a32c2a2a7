// Package schemas generates the values.schema.json of the Helm charts.
//
// Helm does not resolve references between schema files, so each values.schema.json must contain
// the library chart's definitions. It is derived from these, each merged over those above it:
//
//	urr-lib/defs.json   definitions that charts share
//	<chart>/values.yaml which definitions apply (a block "kafka" gets the definition "kafka"), the
//	                    names of secrets and queues; with the blocks of urr-lib/values.yaml that
//	                    <chart>/Chart.yaml imports
//	the Config          the properties of "config", and which callees are optional
//	<chart>/schema.json what only this chart has, or narrows; it may be absent
package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"urr.guru/scripts/internal/settings"
)

const (
	library  = "urr-lib"
	umbrella = "urr"
	output   = "values.schema.json"
)

// object is a JSON object.
type object = map[string]any

// Write generates the schema of every chart in a folder, those of the services and the umbrella, and
// writes those that changed.
func Write(dir string, services []settings.Service) error {
	files, err := Generate(dir, services)
	if err != nil {
		return err
	}
	for path, want := range files {
		if got, err := os.ReadFile(path); err == nil && bytes.Equal(got, want) {
			continue
		}
		if err := os.WriteFile(path, want, 0o644); err != nil { //nolint:gosec // a document
			return fmt.Errorf("write schema: %w", err)
		}
	}
	return nil
}

// Generate returns the schemas that Write writes, by the path of their file.
func Generate(dir string, services []settings.Service) (map[string][]byte, error) {
	var defs object
	if err := readJSON(filepath.Join(dir, library, "defs.json"), &defs); err != nil {
		return nil, err
	}
	given, err := givenVariables(dir)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, service := range append(slices.Clip(services), settings.Service{Name: umbrella}) {
		chart := filepath.Join(dir, service.Name)
		schema, err := generate(chart, defs, configured(service, given), service.Calls)
		if err != nil {
			return nil, fmt.Errorf("schema of chart %s: %w", service.Name, err)
		}
		if files[filepath.Join(chart, output)], err = format(schema); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// dependency is an entry of a Chart.yaml.
type dependency struct {
	Name         string   `yaml:"name"`
	ImportValues []string `yaml:"import-values"`
}

// generate returns the schema of one chart, given the properties of its block "config" and its
// callees.
func generate(chart string, defs, config object, calls map[string]bool) (object, error) {
	own := object{}
	var meta struct {
		Dependencies []dependency `yaml:"dependencies"`
	}
	if err := readJSON(filepath.Join(chart, "schema.json"), &own); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := readYAML(filepath.Join(chart, "Chart.yaml"), &meta); err != nil {
		return nil, err
	}
	schema := object{
		"$schema":  "https://json-schema.org/draft/2020-12/schema",
		"$comment": "generated from schema.json, values.yaml and urr-lib by make settings",
		"title":    "Values of the chart " + filepath.Base(chart),
		"type":     "object",
	}
	if slices.ContainsFunc(meta.Dependencies, func(d dependency) bool { return d.Name != library }) {
		describeUmbrella(schema, own, meta.Dependencies)
	} else {
		values, err := withImports(chart, meta.Dependencies)
		if err != nil {
			return nil, err
		}
		properties := derive(values, defs, config, calls)
		merge(properties, own)
		describeService(schema, properties, defs)
	}
	used := object{}
	if err := collect(used, defs, schema); err != nil {
		return nil, err
	}
	schema["$defs"] = used
	return schema, nil
}

// withImports returns the values of a chart as Helm computes them: its own values.yaml over the
// imported blocks.
func withImports(chart string, dependencies []dependency) (object, error) {
	var own object
	var shared struct {
		Exports map[string]object `yaml:"exports"`
	}
	err := errors.Join(
		readYAML(filepath.Join(chart, "values.yaml"), &own),
		readYAML(filepath.Join(filepath.Dir(chart), library, "values.yaml"), &shared),
	)
	if err != nil {
		return nil, err
	}
	values := object{}
	for _, d := range dependencies {
		for _, name := range d.ImportValues {
			block, exists := shared.Exports[name]
			if !exists { // Helm only logs this
				return nil, fmt.Errorf("import-values of Chart.yaml has %s, which %s/values.yaml does not export", name, library)
			}
			merge(values, block)
		}
	}
	merge(values, own)
	return values, nil
}

// describeUmbrella adds the properties of the chart that has all others as dependencies.
func describeUmbrella(schema, own object, dependencies []dependency) {
	properties := object{"global": ref("global")}
	merge(properties, own)
	schema["required"] = slices.Sorted(maps.Keys(properties))
	for _, d := range dependencies {
		properties[d.Name] = object{"type": "object", "description": "values of the chart " + d.Name}
	}
	schema["additionalProperties"] = false
	schema["properties"] = properties
}

// describeService adds the properties of a service's chart.
func describeService(schema, properties, defs object) {
	schema["properties"] = properties
	// Closed by listing the names: with additionalProperties one invalid value of the service would
	// cause two errors.
	schema["propertyNames"] = object{"enum": slices.Sorted(maps.Keys(union(commonProperties(defs), properties)))}
	schema["$ref"] = "#/$defs/common"
	// helm lint also checks values.yaml alone. Only complete values contain those of the library.
	complete := ref("complete")
	complete["required"] = slices.Sorted(maps.Keys(properties))
	schema["dependentSchemas"] = object{library: complete}
}

// derive returns the schemas of a service's values that follow from the library, its Config and its
// callees.
func derive(values, defs, config object, calls map[string]bool) object {
	properties := object{}
	common := commonProperties(defs)
	for name, value := range values {
		if _, isCommon := common[name]; isCommon {
			continue
		}
		switch members, _ := value.(object); name {
		case "serves":
			properties[name] = object{"const": value}
		case "secrets":
			properties[name] = closedObject(each(members, ref("secret")))
		case "queues":
			properties[name] = closedObject(each(members, ref("queue")))
		case "config":
			properties[name] = object{"type": "object", "additionalProperties": false, "properties": config}
		case "rpc":
			callees := object{}
			for callee, optional := range calls {
				callees[callee] = ref(map[bool]string{false: "call", true: "optionalCall"}[optional])
			}
			properties[name] = object{"type": "object", "additionalProperties": false, "properties": object{
				"secretPrefix": object{"type": "string", "minLength": 1},
				"callers":      ref("callers"),
				"calls":        closedObject(callees),
			}}
		default:
			if _, shared := defs[name]; shared {
				properties[name] = ref(name)
			}
		}
	}
	if values["serves"] == "none" { // nobody can call it
		none := object{"type": "array", "maxItems": 0}
		merge(properties, object{
			"rpc":           object{"properties": object{"callers": none}},
			"networkPolicy": object{"properties": object{"from": none}},
		})
	}
	return properties
}

// commonProperties are the values that every service has.
func commonProperties(defs object) object {
	common, _ := defs["common"].(object)
	properties, _ := common["properties"].(object)
	return properties
}

// closedObject returns the schema of an object that has exactly the given members, by their schemas.
func closedObject(members object) object {
	schema := object{"type": "object", "additionalProperties": false, "properties": members}
	if len(members) > 0 {
		schema["required"] = slices.Sorted(maps.Keys(members))
	}
	return schema
}

// each returns a schema for each of the names.
func each(names object, schema any) object {
	schemas := object{}
	for name := range names {
		schemas[name] = schema
	}
	return schemas
}

func ref(name string) object { return object{"$ref": "#/$defs/" + name} }

func union(a, b object) object {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// merge copies the members of from into to. Objects in both are merged recursively, except
// references, which are replaced.
func merge(to, from object) {
	for name, value := range from {
		existing, both := to[name].(object)
		added, isObject := value.(object)
		if both && isObject && existing["$ref"] == nil {
			merge(existing, added)
		} else {
			to[name] = value
		}
	}
}

// collect adds to used every definition that a schema refers to, directly or indirectly.
func collect(used, defs object, schema any) error {
	switch node := schema.(type) {
	case []any:
		for _, item := range node {
			if err := collect(used, defs, item); err != nil {
				return err
			}
		}
	case object:
		for key, value := range node {
			target, isText := value.(string)
			if key != "$ref" || !isText {
				if err := collect(used, defs, value); err != nil {
					return err
				}
				continue
			}
			name := strings.TrimPrefix(target, "#/$defs/")
			if used[name] != nil {
				continue
			}
			if defs[name] == nil {
				return fmt.Errorf("%s/defs.json does not define %s", library, target)
			}
			used[name] = defs[name]
			if err := collect(used, defs, defs[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// format writes each member of properties and $defs on its own line, for readable diffs.
func format(schema object) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("{")
	for i, name := range slices.Sorted(maps.Keys(schema)) {
		if i > 0 {
			out.WriteString(",")
		}
		fmt.Fprintf(&out, "\n  %q: ", name)
		members, isObject := schema[name].(object)
		if !isObject || (name != "properties" && name != "$defs") {
			if err := writeJSON(&out, schema[name]); err != nil {
				return nil, err
			}
			continue
		}
		out.WriteString("{")
		for i, member := range slices.Sorted(maps.Keys(members)) {
			if i > 0 {
				out.WriteString(",")
			}
			fmt.Fprintf(&out, "\n    %q: ", member)
			if err := writeJSON(&out, members[member]); err != nil {
				return nil, err
			}
		}
		out.WriteString("\n  }")
	}
	out.WriteString("\n}\n")
	return out.Bytes(), nil
}

func writeJSON(out *bytes.Buffer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("write schema: %w", err)
	}
	out.Truncate(out.Len() - 1) // the encoder ends each value with a line break
	return nil
}

func readJSON(path string, value any) error { return readFile(path, value, json.Unmarshal) }

func readYAML(path string, value any) error { return readFile(path, value, yaml.Unmarshal) }

func readFile(path string, value any, unmarshal func([]byte, any) error) error {
	raw, err := os.ReadFile(path)
	if err == nil {
		err = unmarshal(raw, value)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
