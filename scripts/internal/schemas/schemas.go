// Package schemas generates the values.schema.json of the Helm charts.
//
// Helm does not resolve references between schema files, so each values.schema.json must contain
// the library chart's definitions. A chart's own schema.json contains only the rest:
//
//	urr-lib/defs.json   definitions that charts share
//	<chart>/values.yaml which definitions apply (a block "kafka" gets the definition "kafka"), the
//	                    names of secrets, queues and callees; with the blocks of urr-lib/values.yaml
//	                    that <chart>/Chart.yaml imports
//	<chart>/schema.json the chart's other properties; merged over what is derived from the above
package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	library = "urr-lib"
	output  = "values.schema.json"
)

// object is a JSON object.
type object = map[string]any

// Write generates the schema of every chart in a folder and writes those that changed.
func Write(dir string) error {
	files, err := Generate(dir)
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

// Generate returns the schema of every chart in a folder, by the path of its file.
func Generate(dir string) (map[string][]byte, error) {
	var defs object
	if err := readJSON(filepath.Join(dir, library, "defs.json"), &defs); err != nil {
		return nil, err
	}
	charts, err := filepath.Glob(filepath.Join(dir, "*", "schema.json"))
	if err != nil {
		return nil, fmt.Errorf("find charts: %w", err)
	}
	if len(charts) == 0 {
		return nil, fmt.Errorf("%s has no chart with a schema.json", dir)
	}
	files := map[string][]byte{}
	for _, own := range charts {
		chart := filepath.Dir(own)
		schema, err := generate(chart, defs)
		if err != nil {
			return nil, fmt.Errorf("schema of chart %s: %w", filepath.Base(chart), err)
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

// generate returns the schema of one chart.
func generate(chart string, defs object) (object, error) {
	var own object
	var meta struct {
		Dependencies []dependency `yaml:"dependencies"`
	}
	err := errors.Join(readJSON(filepath.Join(chart, "schema.json"), &own), readYAML(filepath.Join(chart, "Chart.yaml"), &meta))
	if err != nil {
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
		describeService(schema, own, values, defs)
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
func describeService(schema, own, values, defs object) {
	properties := derive(values, defs)
	merge(properties, own)
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

// derive returns the schemas of a service's values that follow from the library.
func derive(values, defs object) object {
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
			properties[name] = closedObject(members, ref("secret"))
		case "queues":
			properties[name] = closedObject(members, ref("queue"))
		case "config":
			properties[name] = closedObject(nil, nil) // the names are in schema.json
		case "rpc":
			calls, _ := members["calls"].(object)
			properties[name] = object{"type": "object", "additionalProperties": false, "properties": object{
				"secretPrefix": object{"type": "string", "minLength": 1},
				"callers":      ref("callers"),
				"calls":        closedObject(calls, ref("call")),
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

// closedObject returns the schema of an object that has exactly the given members, each with the
// schema each.
func closedObject(members object, each any) object {
	properties := object{}
	for name := range members {
		properties[name] = each
	}
	schema := object{"type": "object", "additionalProperties": false, "properties": properties}
	if len(members) > 0 {
		schema["required"] = slices.Sorted(maps.Keys(members))
	}
	return schema
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
