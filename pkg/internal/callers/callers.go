// Package callers finds Caller messages inside requests. A Caller says on whose behalf a request is
// made; only the gateway may set it.
package callers

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Name is the full name of the message Caller.
const Name = protoreflect.FullName("urr.common.v1.Caller")

// Find returns the path of the first Caller that is set in a message: its own ("caller") or that of
// an item of a list ("items.caller"); "" when there is none.
func Find(m proto.Message) string {
	found := ""
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Message() == nil || f.IsMap() {
			return true
		}
		switch {
		case f.Message().FullName() == Name:
			found = f.JSONName()
		case f.IsList() && hasCaller(f.Message()):
			for i := 0; i < v.List().Len() && found == ""; i++ {
				if p := Find(v.List().Get(i).Message().Interface()); p != "" {
					found = f.JSONName() + "." + p
				}
			}
		}
		return found == ""
	})
	return found
}

func hasCaller(md protoreflect.MessageDescriptor) bool {
	for i := range md.Fields().Len() {
		if f := md.Fields().Get(i); f.Message() != nil && f.Message().FullName() == Name {
			return true
		}
	}
	return false
}
