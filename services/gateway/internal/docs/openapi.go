package docs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/telemetry"
	"urr.guru/services/gateway/internal/edge"
)

// object is a JSON object.
type object = map[string]any

// buildDocument completes the generated OpenAPI 2.0 document, and reduces it to the given routes.
func buildDocument(generated []byte, routes []*edge.Route) (object, error) {
	var doc object
	if err := json.Unmarshal(generated, &doc); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	paths, _ := doc["paths"].(object)
	definitions, _ := doc["definitions"].(object)
	if paths == nil || definitions == nil {
		return nil, fmt.Errorf("openapi: the generated document has no paths or no definitions")
	}
	cleanDocument(doc)
	delete(definitions, "v1Caller")
	delete(definitions, "v1Tier1")
	definitions["Problem"] = problemSchema()
	served := object{} // the generated document also has routes of services that are not configured
	for _, r := range routes {
		if r.Page {
			continue
		}
		op, err := operationOf(paths, definitions, r)
		if err != nil {
			return nil, err
		}
		if err := describeOperation(op, r); err != nil {
			return nil, err
		}
		item, _ := served[publicPath(r)].(object)
		if item == nil {
			item = object{}
			served[publicPath(r)] = item
		}
		item[strings.ToLower(r.Method)] = op
	}
	doc["paths"] = served
	doc["info"] = object{
		"title": "URR", "version": telemetry.Version(),
		"description": "Every path under /api/v1 is also served under /api. Refusals are application/problem+json (RFC 9457).",
	}
	doc["securityDefinitions"] = object{
		"session": object{"type": "apiKey", "in": "header", "name": "Authorization", "description": "Bearer, or the cookie urr-session; over https __Host-urr-session"},
		"visitor": object{"type": "apiKey", "in": "header", "name": "Cookie", "description": "The cookie urr-anon; over https __Host-urr-anon"},
		"entry":   object{"type": "apiKey", "in": "header", "name": "x-queue-entry-token", "description": "Or the cookie urr-entry-token"},
	}
	delete(doc, "tags")
	return doc, nil
}

// operationOf returns the OpenAPI operation of a route. It first adds the operation of a
// hand-written route, which the generated document lacks.
func operationOf(paths, definitions object, r *edge.Route) (object, error) {
	path, method := publicPath(r), strings.ToLower(r.Method)
	item, _ := paths[path].(object)
	op, _ := item[method].(object)
	switch {
	case op != nil:
		return op, requireBody(op, r)
	case r.RPC != "":
		return nil, fmt.Errorf("openapi: the generated document has no %s %s", r.Method, path)
	}
	if item == nil {
		item = object{}
		paths[path] = item
	}
	op = object{"operationId": r.ID, "tags": []any{strings.SplitN(r.ID, ".", 2)[0]}}
	params := []any{}
	for _, name := range r.Params() {
		params = append(params, object{"name": edge.PublicName(name), "in": "path", "required": true, "type": "string"})
	}
	if r.Body.Stream {
		op["consumes"] = []any{"text/csv"}
		params = append(params, object{"name": "body", "in": "body", "required": true, "schema": object{"type": "string"}})
	}
	if r.Body.JSON {
		params = append(params, object{"name": "body", "in": "body", "schema": schemaReference(definitions, r.Body.Message().ProtoReflect().Descriptor())})
	}
	op["parameters"] = params
	answer := object{"description": "Done"}
	if r.Answer != nil {
		answer["schema"] = schemaReference(definitions, r.Answer.ProtoReflect().Descriptor())
	}
	op["responses"] = object{"200": answer}
	item[method] = op
	return op, requireBody(op, r)
}

// requireBody marks the body of an operation as required if, and only if, the rules of its message
// refuse a request without one. (The generator marks every body as required.)
func requireBody(op object, r *edge.Route) error {
	params, _ := op["parameters"].([]any)
	for _, p := range params {
		if param, _ := p.(object); param["in"] == "body" {
			needed, err := needsBody(r)
			param["required"] = needed
			return err
		}
	}
	return nil
}

func needsBody(r *edge.Route) (bool, error) {
	if r.Body.Required || r.Body.Stream {
		return true, nil
	}
	var message proto.Message
	if r.RPC == "" {
		message = r.Body.Message()
	} else {
		input := r.Input()
		if input == nil {
			return false, fmt.Errorf("openapi: there is no RPC %s", r.RPC)
		}
		message = dynamicpb.NewMessage(input)
	}
	refused := rpc.Validate(message)
	if refused == nil {
		return false, nil
	}
	for _, field := range errs.From(refused).Fields {
		if !slices.ContainsFunc(r.Params(), func(name string) bool { return edge.PublicName(name) == field.Path }) {
			return true, nil
		}
	}
	return false, nil
}

// describeOperation adds texts, headers, who may call it, and responses to the operation of a route.
func describeOperation(op object, r *edge.Route) error {
	if r.Summary != "" {
		op["summary"] = r.Summary
	}
	if r.Description != "" {
		op["description"] = r.Description
	}
	if h := headerParameters(r); len(h) > 0 {
		params, _ := op["parameters"].([]any)
		op["parameters"] = append(params, h...)
	}
	op["x-urr-who"] = string(r.Access)
	op["security"] = securityOf(r.Access)
	status := cmp.Or(r.Status, 200)
	answer := object{"description": "Done"}
	var schema any
	if responses, ok := op["responses"].(object); ok {
		done, _ := responses["200"].(object)
		schema = done["schema"]
	}
	if status != 204 && schema != nil {
		answer["schema"] = schema
	}
	if r.Example != "" {
		var example any
		if err := json.Unmarshal([]byte(r.Example), &example); err != nil {
			return fmt.Errorf("openapi: the example of %s: %w", r, err)
		}
		answer["examples"] = object{"application/json": example}
	}
	responses := object{
		strconv.Itoa(status): answer,
		"default":            object{"description": "Refused", "schema": object{"$ref": "#/definitions/Problem"}},
	}
	if r.RepeatsAnswer {
		repeated := maps.Clone(answer)
		repeated["description"] = "The same again: an earlier request has done it"
		delete(repeated, "examples")
		responses["200"] = repeated
	}
	if status == 204 && r.Answer != nil {
		responses["200"] = object{"description": "Done, with an answer", "schema": schema}
	}
	op["responses"] = responses
	return nil
}

func headerParameters(r *edge.Route) []any {
	all := make([]any, len(r.Headers))
	for i, h := range r.Headers {
		all[i] = object{"name": h.Name, "in": "header", "type": "string", "required": h.Required, "description": h.Description}
	}
	return all
}

func securityOf(w edge.Access) []any {
	switch w {
	case edge.Visitor:
		return []any{object{"visitor": []any{}}}
	case edge.User, edge.Staff, edge.Admin:
		return []any{object{"session": []any{}}}
	case edge.Entry:
		return []any{object{"session": []any{}, "entry": []any{}}}
	case edge.Public:
	}
	return []any{}
}

// cleanDocument corrects what the generator cannot know: 64-bit integers are JSON numbers, and
// clients do not send the field caller, which the gateway sets.
func cleanDocument(v any) {
	switch v := v.(type) {
	case object:
		if f := v["format"]; v["type"] == "string" && (f == "int64" || f == "uint64") {
			v["type"] = "integer"
		}
		if props, ok := v["properties"].(object); ok {
			delete(props, "caller")
			delete(props, "etag") // sent as a header
		}
		if params, ok := v["parameters"].([]any); ok {
			v["parameters"] = withoutCallers(params)
		}
		for _, child := range v {
			cleanDocument(child)
		}
	case []any:
		for _, child := range v {
			cleanDocument(child)
		}
	}
}

func withoutCallers(params []any) []any {
	kept := make([]any, 0, len(params))
	for _, p := range params {
		o, _ := p.(object)
		if name, _ := o["name"].(string); !strings.HasPrefix(name, "caller.") {
			kept = append(kept, p)
		}
	}
	return kept
}

func problemSchema() object {
	text := object{"type": "string"}
	var codes []any
	for _, e := range errs.Catalogue() {
		codes = append(codes, e.Reason)
	}
	return object{
		"type": "object", "description": "RFC 9457, with a stable code.",
		"required": []any{"type", "title", "status", "detail", "instance", "code", "error", "requestId"},
		"properties": object{
			"type": text, "title": text, "status": object{"type": "integer"}, "instance": text, "requestId": text,
			"detail":     object{"type": "string", "description": "For the person, in the language of Accept-Language."},
			"code":       object{"type": "string", "enum": codes, "description": "Stable: what clients switch on."},
			"error":      object{"type": "string", "description": "The code's fixed English sentence."},
			"redirectTo": object{"type": "string", "description": "Own path that the person should go to."},
			"retryAfter": object{"type": "integer", "description": "Seconds after which trying again makes sense."},
			"fields": object{"type": "array", "items": object{
				"type": "object", "properties": object{"path": text, "message": text},
			}},
		},
	}
}
