package app_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"urr.guru/services/gateway/internal/edge"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// TestEveryInputHasAMeaning requires a rule or a row of testdata/inputs.txt for every input whose
// type does not say what it means: a service could give one of its values a meaning that no client
// should use.
//   - A string, bytes or an enum needs a rule of buf.validate that says which values it has (`in`,
//     a pattern, a format such as uuid), or else a row. Other rules, such as `not_in`, do not.
//   - A bool needs a row.
//   - So do headers, and those parameters of hand-written routes that are not ids, since the gateway
//     refuses what is no id (edge.Table).
//
// The fields are those of all requests that the gateway may send to services, also of those that it
// composes itself, and of the bodies of its own routes. A Caller is left out: clients cannot set it.
func TestEveryInputHasAMeaning(t *testing.T) {
	t.Parallel()
	needed := inputNames{}
	methods := eachMethod(func(md protoreflect.MethodDescriptor) {
		access, _ := proto.GetExtension(md.Options(), commonv1.E_Access).(*commonv1.Access)
		byGateway := slices.Contains(access.GetCallers(), "gateway")
		require.True(t, byGateway || !proto.HasExtension(md.Options(), annotations.E_Http), md.FullName())
		if byGateway {
			needed.addMessage(md.Input())
		}
	})
	require.Greater(t, methods, 100)
	for _, r := range newFixture(t).gateway.Routes() {
		needed.addRoute(r)
	}

	slices.Sort(needed)
	require.Empty(t, cmp.Diff([]string(slices.Compact(needed)), readInputRows(t)), "-: without a rule or a row; +: a row that is not needed, or not in order")
}

func eachMethod(visit func(protoreflect.MethodDescriptor)) (methods int) {
	protoregistry.GlobalFiles.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		for i := range fd.Services().Len() {
			for j := range fd.Services().Get(i).Methods().Len() {
				visit(fd.Services().Get(i).Methods().Get(j))
				methods++
			}
		}
		return true
	})
	return methods
}

// inputNames are the names of inputs that need a row.
type inputNames []string

func (in *inputNames) addRoute(r *edge.Route) {
	for _, h := range r.Headers {
		*in = append(*in, "header "+h.Name)
	}
	if r.RPC != "" {
		return // its parameters are fields of the request
	}
	for _, param := range r.Params() {
		if !strings.HasSuffix(param, "_id") {
			*in = append(*in, "parameter "+param)
		}
	}
	if r.Body.Message != nil {
		in.addMessage(r.Body.Message().ProtoReflect().Descriptor())
	}
}

// addMessage adds the fields of a message and of the messages in it. No request is recursive.
func (in *inputNames) addMessage(md protoreflect.MessageDescriptor) {
	if md == (&commonv1.Caller{}).ProtoReflect().Descriptor() {
		return
	}
	for i := range md.Fields().Len() {
		f := md.Fields().Get(i)
		rules, _ := proto.GetExtension(f.Options(), validate.E_Field).(*validate.FieldRules)
		var understood bool
		switch {
		case f.IsMap():
			understood = hasForm(f.MapKey(), rules.GetMap().GetKeys()) && hasForm(f.MapValue(), rules.GetMap().GetValues())
			if value := f.MapValue().Message(); value != nil {
				in.addMessage(value)
			}
		case f.IsList():
			understood = hasForm(f, rules.GetRepeated().GetItems())
		default:
			understood = hasForm(f, rules)
		}
		if !understood {
			*in = append(*in, string(f.FullName()))
		}
		if f.Message() != nil && !f.IsMap() {
			in.addMessage(f.Message())
		}
	}
}

// hasForm reports whether the type of a field or the rules for its value say which values it has.
func hasForm(f protoreflect.FieldDescriptor, rules *validate.FieldRules) bool {
	switch f.Kind() {
	case protoreflect.StringKind:
		s := rules.GetString()
		return len(s.GetIn()) > 0 || s.GetPattern() != "" || s.GetWellKnown() != nil
	case protoreflect.BytesKind:
		b := rules.GetBytes()
		return len(b.GetIn()) > 0 || b.GetPattern() != ""
	case protoreflect.EnumKind:
		return len(rules.GetEnum().GetIn()) > 0
	case protoreflect.BoolKind:
		return false
	default: // a number, or a message, whose fields are looked at
		return true
	}
}

// readInputRows returns the names of the table's rows.
func readInputRows(t *testing.T) (names []string) {
	t.Helper()
	table, err := os.ReadFile("testdata/inputs.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(table)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(line, " | ")
		require.Len(t, columns, 3, line)
		for _, c := range columns {
			require.NotEmpty(t, strings.TrimSpace(c), line)
		}
		names = append(names, strings.TrimSpace(columns[0]))
	}
	return names
}
