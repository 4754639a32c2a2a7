package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	_ "google.golang.org/protobuf/types/known/emptypb" // imported by the schema
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"

	_ "urr.guru/proto/gen/urr/common/v1" // imported by the schema
)

// schema has every kind of field that a message of the platform may have.
const schema = `
name: "wiretest.proto" package: "wiretest" syntax: "proto3"
dependency: ["google/protobuf/timestamp.proto", "google/protobuf/empty.proto", "google/protobuf/struct.proto", "urr/common/v1/common.proto"]
enum_type { name: "Color" value { name: "RED" number: 0 } value { name: "BLUE" number: 2 } }
message_type {
  name: "Leaf"
  field { name: "seat_id" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "price" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL }
}
message_type {
  name: "All"
  nested_type { name: "CountsEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_UINT64 label: LABEL_OPTIONAL } }
  nested_type { name: "LeavesEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".wiretest.Leaf" label: LABEL_OPTIONAL } }
  oneof_decl { name: "choice" }
  oneof_decl { name: "_maybe_count" }
  oneof_decl { name: "_maybe_text" }
  field { name: "on" number: 1 type: TYPE_BOOL label: LABEL_OPTIONAL }
  field { name: "text" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "raw_bytes" number: 3 type: TYPE_BYTES label: LABEL_OPTIONAL }
  field { name: "int32" number: 4 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "int64" number: 5 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "uint32" number: 6 type: TYPE_UINT32 label: LABEL_OPTIONAL }
  field { name: "uint64" number: 7 type: TYPE_UINT64 label: LABEL_OPTIONAL }
  field { name: "float" number: 8 type: TYPE_FLOAT label: LABEL_OPTIONAL }
  field { name: "double" number: 9 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
  field { name: "color" number: 10 type: TYPE_ENUM type_name: ".wiretest.Color" label: LABEL_OPTIONAL }
  field { name: "leaf" number: 11 type: TYPE_MESSAGE type_name: ".wiretest.Leaf" label: LABEL_OPTIONAL }
  field { name: "leaf_list" number: 12 type: TYPE_MESSAGE type_name: ".wiretest.Leaf" label: LABEL_REPEATED }
  field { name: "names" number: 13 type: TYPE_STRING label: LABEL_REPEATED }
  field { name: "counts" number: 14 type: TYPE_MESSAGE type_name: ".wiretest.All.CountsEntry" label: LABEL_REPEATED }
  field { name: "leaves" number: 15 type: TYPE_MESSAGE type_name: ".wiretest.All.LeavesEntry" label: LABEL_REPEATED }
  field { name: "maybe_count" number: 16 type: TYPE_INT64 label: LABEL_OPTIONAL oneof_index: 1 proto3_optional: true }
  field { name: "maybe_text" number: 17 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 2 proto3_optional: true }
  field { name: "place" number: 18 type: TYPE_MESSAGE type_name: ".wiretest.Leaf" label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "problem" number: 19 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "occurred_at" number: 20 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" label: LABEL_OPTIONAL }
  field { name: "nothing" number: 21 type: TYPE_MESSAGE type_name: ".google.protobuf.Empty" label: LABEL_OPTIONAL }
  field { name: "anything" number: 22 type: TYPE_MESSAGE type_name: ".google.protobuf.Struct" label: LABEL_OPTIONAL }
  field { name: "sint64" number: 23 type: TYPE_SINT64 label: LABEL_OPTIONAL }
  field { name: "fixed64" number: 24 type: TYPE_FIXED64 label: LABEL_OPTIONAL }
}
message_type {
  name: "Asked"
  field { name: "caller" number: 1 type: TYPE_MESSAGE type_name: ".urr.common.v1.Caller" label: LABEL_OPTIONAL }
  field { name: "items" number: 2 type: TYPE_MESSAGE type_name: ".wiretest.Asked" label: LABEL_REPEATED }
  field { name: "event_id" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL }
}
`

// newMessage makes an empty message of the schema, or one filled from text.
func newMessage(t testing.TB, name protoreflect.FullName, text string) *dynamicpb.Message {
	t.Helper()
	var file descriptorpb.FileDescriptorProto
	require.NoError(t, prototext.Unmarshal([]byte(schema), &file))
	fd, err := protodesc.NewFile(&file, protoregistry.GlobalFiles)
	require.NoError(t, err)
	m := dynamicpb.NewMessage(fd.Messages().ByName(name.Name()))
	require.NoError(t, prototext.Unmarshal([]byte(text), m))
	require.True(t, proto.Equal(m, proto.Clone(m)))
	return m
}
