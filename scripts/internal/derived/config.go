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

// givenVariables returns the variables that the library chart's templates set without "config".
func givenVariables(dir string) (map[string]bool, error) {
	path := filepath.Join(dir, library, "templates", "_environment.tpl")
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the variables of all charts: %w", err)
	}
	given := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([A-Z][A-Z0-9_]+):`).FindAllStringSubmatch(string(raw), -1) {
		given[m[1]] = true
	}
	return given, nil
}

// ofQueue matches the environment variables that are set from the block "queues" of the values.
var ofQueue = regexp.MustCompile(`_QUEUE_(URL|ENDPOINT)$`)

// configProperties returns the properties of the block "config": the settings of a service's Config
// that are neither secret nor set from other values.
func configProperties(service settings.Service, given map[string]bool) object {
	config := object{}
	for _, s := range service.Settings {
		if !given[s.Name] && !s.Secret() && !s.Peer() && !ofQueue.MatchString(s.Name) {
			config[s.Name] = settingSchema(s)
		}
	}
	return config
}

// settingSchema returns the JSON schema of a variable. A schema cannot bound durations, so their
// bounds are only in its description.
func settingSchema(s settings.Setting) object {
	schema := object{"description": s.Meaning}
	switch s.Type {
	case "bool":
		schema["type"] = "boolean"
	case "[]string":
		schema["type"], schema["items"] = "array", object{"type": "string"}
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
