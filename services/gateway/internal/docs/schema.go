package docs

import "google.golang.org/protobuf/reflect/protoreflect"

// schemaReference returns a reference to the schema of a message, named "v1" and the message's name. It
// adds a missing schema, since the generator leaves out messages that no HTTP rule uses.
func schemaReference(definitions object, md protoreflect.MessageDescriptor) object {
	name := "v1" + string(md.Name())
	if definitions[name] == nil {
		schema := object{"type": "object"}
		definitions[name] = schema // before its fields: a message may contain itself
		properties := object{}
		for i := range md.Fields().Len() {
			fd := md.Fields().Get(i)
			if fd.Name() != "caller" {
				properties[fd.JSONName()] = fieldSchema(definitions, fd)
			}
		}
		schema["properties"] = properties
	}
	return object{"$ref": "#/definitions/" + name}
}

func fieldSchema(definitions object, fd protoreflect.FieldDescriptor) object {
	var s object
	switch fd.Kind() {
	case protoreflect.BoolKind:
		s = object{"type": "boolean"}
	case protoreflect.StringKind:
		s = object{"type": "string"}
	case protoreflect.BytesKind:
		s = object{"type": "string", "format": "byte"}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		s = object{"type": "number", "format": "double"}
	case protoreflect.MessageKind:
		if fd.Message().FullName() == "google.protobuf.Timestamp" {
			s = object{"type": "string", "format": "date-time"}
		} else {
			s = schemaReference(definitions, fd.Message())
		}
	default:
		s = object{"type": "integer", "format": fd.Kind().String()}
	}
	if fd.IsList() {
		return object{"type": "array", "items": s}
	}
	return s
}
