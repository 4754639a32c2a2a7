// Package proto embeds documents that are generated from the platform's .proto files.
package proto

import _ "embed"

// OpenAPI is the OpenAPI 2.0 document (JSON) of every RPC with an HTTP rule.
//
//go:embed gen/openapi/urr.swagger.json
var OpenAPI []byte
