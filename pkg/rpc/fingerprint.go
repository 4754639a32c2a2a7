package rpc

import (
	"encoding/json"

	"google.golang.org/protobuf/proto"
)

// Fingerprint returns a text that is equal for equal requests, whoever sends them: the JSON form of
// the generated struct without its field `caller`. Stored idempotency keys contain its hash, so it
// must not change: a repeated request would count as a different one.
func Fingerprint(msg proto.Message) string {
	body := proto.Clone(msg)
	m := body.ProtoReflect()
	if caller := m.Descriptor().Fields().ByName("caller"); caller != nil {
		m.Clear(caller)
	}
	b, err := json.Marshal(body)
	if err != nil {
		return "" // generated structs always marshal
	}
	return string(b)
}
