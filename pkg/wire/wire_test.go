package wire_test

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/wire"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

var update = flag.Bool("update", false, "rewrite the goldens in testdata")

const full = `
on: true text: "q\"b\\s\nn\tt\x01 한국 <&>" raw_bytes: "\xff\x00z" int32: -7 int64: 9007199254740991 uint32: 7 uint64: 18446744073709551615
float: 1.5 double: 1e-7 color: BLUE leaf { seat_id: "A-1-1" price: 55000 }
leaf_list { seat_id: "A-1-2" } leaf_list {} names: "b" names: "" counts { key: "z" value: 1 } counts { key: "a" } counts { key: "한" value: 3 }
leaves { key: 10 value { price: 1 } } leaves { key: 9 } maybe_count: 0 maybe_text: "" place { seat_id: "B-1-1" }
occurred_at { seconds: 1769889600 nanos: 7999999 } nothing {} sint64: -1 fixed64: 5
`

func TestGoldens(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty":   ``,
		"full":    full,
		"oneof":   `problem: ""`,
		"newer":   `color: 9 occurred_at { seconds: 1769889600 }`,
		"numbers": `float: 0.1 double: 1e21 int64: -9007199254740991 int32: -2147483648`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMessage(t, "wiretest.All", text)
			got, err := wire.Marshal(m)
			require.NoError(t, err)
			require.True(t, json.Valid(got), "%s", got)

			path := "testdata/" + name + ".json"
			if *update {
				require.NoError(t, os.WriteFile(path, append(got, '\n'), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, strings.TrimSuffix(string(want), "\n"), string(got))

			back := newMessage(t, "wiretest.All", "")
			require.NoError(t, wire.Unmarshal(got, back))
			if m.Has(m.Descriptor().Fields().ByName("occurred_at")) {
				truncate(m)
			}
			require.Empty(t, cmp.Diff(m, back, protocmp.Transform()))
		})
	}
}

// truncate cuts occurred_at to the milliseconds that are sent.
func truncate(m protoreflect.Message) {
	ts := m.Mutable(m.Descriptor().Fields().ByName("occurred_at")).Message()
	nanos := ts.Descriptor().Fields().ByName("nanos")
	ts.Set(nanos, protoreflect.ValueOfInt32(int32(ts.Get(nanos).Int()/1e6*1e6)))
}

func TestMarshalRefuses(t *testing.T) {
	t.Parallel()
	set := func(name string, v protoreflect.Value) proto.Message {
		m := newMessage(t, "wiretest.All", "")
		m.Set(m.Descriptor().Fields().ByName(protoreflect.Name(name)), v)
		return m
	}
	for name, tc := range map[string]struct {
		m    proto.Message
		want string
	}{
		"text not UTF-8": {set("text", protoreflect.ValueOfString("\xff")), "text: not valid UTF-8"},
		"NaN":            {set("double", protoreflect.ValueOfFloat64(math.NaN())), "double: NaN is not a JSON number"},
		"infinity":       {set("float", protoreflect.ValueOfFloat32(float32(math.Inf(1)))), "float: +Inf"},
		"struct":         {newMessage(t, "wiretest.All", `anything {}`), "anything: google.protobuf.Struct has no JSON form"},
		"time":           {newMessage(t, "wiretest.All", `occurred_at { nanos: -1 }`), "occurredAt: "},
		"in a map":       {newMessage(t, "wiretest.All", `leaves { key: 1 value { seat_id: "x" } }`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := wire.Marshal(tc.m)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, "wiretest.All")
			require.Nil(t, b)
		})
	}
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	b, err := wire.Append([]byte("data: "), &commonv1.Problem{Reason: "SOLD_OUT"})
	require.NoError(t, err)
	require.Equal(t, `data: {"reason":"SOLD_OUT","kind":"","message":"","metadata":{},"retryAfterMs":0}`, string(b))

	b, err = wire.Append([]byte("data: "), &commonv1.Problem{Reason: "\xff"})
	require.Error(t, err)
	require.Equal(t, "data: ", string(b), "no half a message after an error")
}

func TestUnmarshal(t *testing.T) {
	t.Parallel()
	m := newMessage(t, "wiretest.All", "")
	require.NoError(t, wire.Unmarshal([]byte(` {"int64": 55000, "uint64": 7, "leafList": [{"seatId": "A"}], "color": "BLUE"} `), m))
	want := newMessage(t, "wiretest.All", `int64: 55000 uint64: 7 leaf_list { seat_id: "A" } color: BLUE`)
	require.Empty(t, cmp.Diff(want, m, protocmp.Transform()))
}

// refusal is an input and its error: the reason, and the path and message of the field. An empty
// message is not compared.
type refusal struct{ in, reason, path, message string }

func requireRefusals(t *testing.T, cases map[string]refusal) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schema := protoreflect.FullName("wiretest.All")
			if strings.Contains(tc.in, "caller") || strings.Contains(tc.in, "items") {
				schema = "wiretest.Asked"
			}
			err := wire.Unmarshal([]byte(tc.in), newMessage(t, schema, ""))
			require.Error(t, err)
			e := errs.From(err)
			require.Equal(t, tc.reason, e.Reason)
			require.Equal(t, errs.Invalid, e.Kind)
			if tc.message != "" {
				require.Equal(t, []errs.Field{{Path: tc.path, Message: tc.message}}, e.Fields)
			}
		})
	}
}

func TestUnmarshalRefusesUnknownAndRepeatedMembers(t *testing.T) {
	t.Parallel()
	requireRefusals(t, map[string]refusal{
		"unknown":            {`{"text": "a", "foo": 1}`, "UNKNOWN_FIELD", "foo", "is not known"},
		"unknown deep":       {`{"leafList": [{}, {"price": 1}, {"bar": {}}]}`, "UNKNOWN_FIELD", "leafList[2].bar", "is not known"},
		"unknown after":      {"{\n \"text\": \"한국\",\n \"names\": [\"a\", \"b\"], \"leaf\": {\"zip\": 1}}", "UNKNOWN_FIELD", "leaf.zip", "is not known"},
		"twice":              {`{"text": "a", "text": "b"}`, "INVALID_REQUEST", "text", "is there twice"},
		"two of a oneof":     {`{"problem": "a", "place": {}}`, "INVALID_REQUEST", "place", "is there twice"},
		"caller":             {`{"eventId": "demo", "caller": {"userId": "admin", "roles": ["admin"]}}`, "UNKNOWN_FIELD", "caller", "is not known"},
		"empty caller":       {`{"caller": {}}`, "UNKNOWN_FIELD", "caller", "is not known"},
		"caller of an item":  {`{"items": [{}, {"caller": {"userId": "x"}}]}`, "UNKNOWN_FIELD", "items[1].caller", "is not known"},
		"caller null":        {`{"items": [{"eventId": "e"}], "caller": null}`, "UNKNOWN_FIELD", "caller", "is not known"},
		"caller escaped":     {`{"\u0063aller": {}}`, "UNKNOWN_FIELD", "caller", "is not known"},
		"null character":     {`{"names": ["a", "b\u0000c"]}`, "INVALID_REQUEST", "names[1]", "must not contain the character U+0000"},
		"name of the schema": {`{"leafList": [{}, {"seat_id": "A"}]}`, "UNKNOWN_FIELD", "leafList[1].seat_id", "is not known"},
		"both names":         {`{"maybeText": "a", "maybe_text": "b"}`, "INVALID_REQUEST", "maybe_text", "is there twice"},
		"null, then a value": {`{"int64": null, "int64": 3}`, "INVALID_REQUEST", "int64", "is there twice"},
		"key of a map twice": {`{"counts": {"a": 1, "a": 2}}`, "INVALID_REQUEST", "counts.a", "is there twice"},
	})
}

func TestUnmarshalRefusesWrongValues(t *testing.T) {
	t.Parallel()
	requireRefusals(t, map[string]refusal{
		"text for number":    {`{"leaf": {"price": "much"}}`, "INVALID_REQUEST", "leaf.price", "must be a whole number in range"},
		"fraction":           {`{"int64": 1.5}`, "INVALID_REQUEST", "int64", "must be a whole number in range"},
		"out of range":       {`{"int32": 2147483648}`, "INVALID_REQUEST", "int32", "must be a whole number in range"},
		"too long":           {`{"uint64": 18446744073709551616}`, "INVALID_REQUEST", "uint64", "must be a whole number in range"},
		"number for text":    {`{"text": 5}`, "INVALID_REQUEST", "text", "must be a string"},
		"number in list":     {`{"names": ["a", 5]}`, "INVALID_REQUEST", "names[1]", "must be a string"},
		"text for bool":      {`{"on": "true"}`, "INVALID_REQUEST", "on", "must be true or false"},
		"bad base64":         {`{"rawBytes": "***"}`, "INVALID_REQUEST", "rawBytes", "must be base64"},
		"bad float":          {`{"double": "x"}`, "INVALID_REQUEST", "double", "must be a number"},
		"bad enum":           {`{"color": "GREEN"}`, "INVALID_REQUEST", "color", "is not one of the known values"},
		"bad time":           {`{"occurredAt": "tomorrow"}`, "INVALID_REQUEST", "occurredAt", "must be a time as 2026-01-31T20:00:00Z"},
		"object for list":    {`{"names": {}}`, "INVALID_REQUEST", "names", "is of the wrong type"},
		"list for object":    {`{"leaf": []}`, "INVALID_REQUEST", "leaf", "is of the wrong type"},
		"not an object":      {`[]`, "INVALID_REQUEST", "", "is of the wrong type"},
		"empty":              {``, "INVALID_REQUEST", "", ""},
		"cut short":          {`{"text": "a"`, "INVALID_REQUEST", "", ""},
		"not JSON":           {`{"text": a}`, "INVALID_REQUEST", "", "is not valid JSON (line 1, column 10)"},
		"something behind":   {`{} {}`, "INVALID_REQUEST", "", ""},
		"null in a list":     {`{"names": ["a", null]}`, "INVALID_REQUEST", "names[1]", "must be a string"},
		"half a surrogate":   {`{"text": "\ud800"}`, "INVALID_REQUEST", "", ""},
		"deep, before, list": {`{"items": [{"items": [{"eventId": 1}]}]}`, "INVALID_REQUEST", "items[0].items[0].eventId", "must be a string"},
	})
}

// TestUnmarshalTypes gives a field of each kind each kind of JSON value, alone, in a list and in a
// map where the schema has one.
func TestUnmarshalTypes(t *testing.T) {
	t.Parallel()
	const whole, number = "must be a whole number in range", "must be a number"
	integers := map[string]string{
		`3`: "", `-0`: "", `null`: "", `"3"`: whole, `"-3"`: whole, `""`: whole, `" 3"`: whole, `3.0`: whole, `3e0`: whole, `30E-1`: whole, `-1.5`: whole,
		`1e400`: whole, `true`: whole, `[3]`: whole, `{}`: whole,
	}
	for field, values := range map[string]map[string]string{
		"int32": integers, "int64": integers, "uint32": integers, "uint64": integers, "sint64": integers, "fixed64": integers, "maybeCount": integers,
		"leaf.price": integers, "leafList[1].price": integers, "counts.a": integers, "leaves.7.price": integers,
		"float":  {`3`: "", `1.5`: "", `1e2`: "", `null`: "", `"3"`: number, `"NaN"`: number, `"Infinity"`: number, `1e39`: number, `true`: number},
		"double": {`3`: "", `1e300`: "", `"1.5"`: number, `"-Infinity"`: number, `1e400`: number, `[]`: number},
		"text":   {`"3"`: "", `null`: "", `3`: "must be a string", `{}`: "must be a string"},
		"on":     {`true`: "", `null`: "", `"true"`: "must be true or false", `1`: "must be true or false"},
	} {
		for value, want := range values {
			t.Run(field+"="+value, func(t *testing.T) {
				t.Parallel()
				err := wire.Unmarshal([]byte(at(field, value)), newMessage(t, "wiretest.All", ""))
				if value == "null" && field == "counts.a" {
					want = whole // a map has no absent entry
				}
				if want == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, errs.ErrInvalidRequest)
				require.Equal(t, []errs.Field{{Path: field, Message: want}}, errs.From(err).Fields)
			})
		}
	}
}

// at returns a JSON document with a value at a path.
func at(path, value string) string {
	head, rest, deep := strings.Cut(path, ".")
	inner := value
	if deep {
		inner = at(rest, value)
	}
	if name, ok := strings.CutSuffix(head, "[1]"); ok {
		return `{"` + name + `":[{},` + inner + `]}`
	}
	return `{"` + head + `":` + inner + `}`
}

// Integers that a float64 would round are read exactly or refused.
func TestUnmarshalIntegersToTheLastDigit(t *testing.T) {
	t.Parallel()
	for field, c := range map[string]struct{ least, most, below, above string }{
		"int32":  {"-2147483648", "2147483647", "-2147483649", "2147483648"},
		"int64":  {"-9223372036854775808", "9223372036854775807", "-9223372036854775809", "9223372036854775808"},
		"uint32": {"0", "4294967295", "-1", "4294967296"},
		"uint64": {"0", "18446744073709551615", "-1", "18446744073709551616"},
	} {
		for _, value := range []string{c.least, c.most} {
			m := newMessage(t, "wiretest.All", "")
			require.NoError(t, wire.Unmarshal([]byte(at(field, value)), m), "%s %s", field, value)
			require.Equal(t, value, m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(field))).String())
		}
		for _, value := range []string{c.below, c.above, c.most + "0", "1" + strings.Repeat("0", 400)} {
			require.ErrorIs(t, wire.Unmarshal([]byte(at(field, value)), newMessage(t, "wiretest.All", "")), errs.ErrInvalidRequest, "%s %s", field, value)
		}
	}
}

func TestUnmarshalRefusesBadUTF8(t *testing.T) {
	t.Parallel()
	err := wire.Unmarshal([]byte("{\"text\": \"\xff\"}"), newMessage(t, "wiretest.All", ""))
	require.ErrorIs(t, err, errs.ErrInvalidUTF8)
}

func FuzzUnmarshal(f *testing.F) {
	f.Add(`{"leafList": [{"price": 1}], "counts": {"a": 1}}`)
	f.Add(`{"leafList": [{"price": "x"}], "counts": {"a": -1}}`)
	f.Add(`{"a": [[[{}]]]`)
	f.Add("{\"text\": \"\xff\"}")
	f.Fuzz(func(t *testing.T, in string) {
		m := newMessage(t, "wiretest.All", "")
		if err := wire.Unmarshal([]byte(in), m); err != nil {
			require.Equal(t, errs.Invalid, errs.From(err).Kind, "%v", err)
			return
		}
		out, err := wire.Marshal(m)
		if err != nil {
			return // a type that we read but never write
		}
		require.True(t, json.Valid(out), "became %q", out)
		require.NoError(t, wire.Unmarshal(out, newMessage(t, "wiretest.All", "")), "became %q", out)
	})
}

func BenchmarkMarshal(b *testing.B) {
	m := &commonv1.Caller{UserId: "user-1", Roles: []string{"admin"}, EventId: "demo", SlotId: "s", Epoch: 1, Tier1: &commonv1.Tier1{Position: 7}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Marshal(m); err != nil {
			b.Fatal(err)
		}
	}
}
