package derived

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"urr.guru/scripts/internal/settings"
)

// givenVariables returns the environment variables that the library chart sets itself. They are not
// set by the block "config" of the values.
func givenVariables(dir string) (map[string]bool, error) {
	path := filepath.Join(dir, library, "templates", "_environment.tpl")
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the variables of all charts: %w", err)
	}
	chartVariables := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([A-Z][A-Z0-9_]+):`).FindAllStringSubmatch(string(raw), -1) {
		chartVariables[m[1]] = true
	}
	return chartVariables, nil
}

// queueVariable matches the environment variables that the charts set from their block "queues".
var queueVariable = regexp.MustCompile(`_QUEUE_(URL|ENDPOINT)$`)

// configProperties returns the schemas of the settings in a chart's block "config": of all settings
// in the service's Config but secrets, addresses of peers and queues, and those in chartVariables.
func configProperties(service settings.Service, chartVariables map[string]bool) object {
	config := object{}
	for _, s := range service.Settings {
		if !chartVariables[s.Name] && !s.Secret() && !s.IsPeer() && !queueVariable.MatchString(s.Name) {
			config[s.Name] = settingSchema(s)
		}
	}
	return config
}

// settingSchema returns the JSON schema of a variable. The limits of durations are only in the
// description, since a schema cannot contain them.
func settingSchema(s settings.Setting) object {
	schema := object{"description": s.Meaning}
	switch s.Type {
	case "bool":
		schema["type"] = "boolean"
	case "[]string":
		items := object{"type": "string"}
		if len(s.OneOf) > 0 {
			items["enum"] = s.OneOf
		}
		schema["type"], schema["items"] = "array", items
	case "time.Duration":
		schema["$ref"] = "#/$defs/duration"
		if bounds := strings.TrimPrefix(s.Takes, "duration, "); bounds != s.Takes {
			schema["description"] = s.Meaning + "; " + bounds
		}
	case "string":
		schema["type"] = "string"
		if len(s.OneOf) > 0 {
			schema["enum"] = s.OneOf
		}
	case "float64":
		schema["type"] = "number"
	default:
		schema["type"] = "integer"
	}
	if schema["type"] == "number" || schema["type"] == "integer" {
		for name, bound := range map[string]string{"minimum": s.Min, "maximum": s.Max} {
			if bound != "" {
				schema[name] = json.Number(bound)
			}
		}
	}
	return schema
}
