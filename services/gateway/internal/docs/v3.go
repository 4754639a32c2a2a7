package docs

import (
	"encoding/json"
	"fmt"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3"
)

const (
	jsonType    = "application/json"
	problemType = "application/problem+json"
)

// toV3 converts the completed document to OpenAPI 3. The generator, protoc-gen-openapiv2, writes
// OpenAPI 2.0.
func toV3(doc object) (*openapi3.T, error) {
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	var v2 openapi2.T
	if err := json.Unmarshal(raw, &v2); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	v3, err := openapi2conv.ToV3(&v2)
	if err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	for _, path := range v3.Paths.Map() {
		for _, op := range path.Operations() {
			// OpenAPI 2.0 has one list of media types for all responses; those of errors differ.
			refusal := op.Responses.Default().Value
			refusal.Content = openapi3.Content{problemType: refusal.Content[jsonType]}
		}
	}
	return v3, nil
}
