package fairdraw

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// The input is the example of RFC 8785, sections 3.2.2 to 3.2.4.
func TestCanonicalOfRFC8785(t *testing.T) {
	t.Parallel()
	const in = `{
		"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
		"string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
		"literals": [null, true, false]
	}`
	const want = `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],` +
		`"string":"€$\u000f\nA'B\"\\\\\"/"}`
	got, err := canonicalJSON(json.RawMessage(in))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, string(got)), "byte for byte")
	// Members are sorted by UTF-16 code units (section 3.2.3).
	got, err = canonicalJSON(json.RawMessage(`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`))
	require.NoError(t, err)
	require.Equal(t, "{\"\\r\":2,\"1\":4,\"\u0080\":6,\"\u00f6\":7,\"\u20ac\":1,\"\U0001f600\":5,\"\ufb33\":3}", string(got))
	_, err = canonicalJSON(json.RawMessage(`{"a":1,"a":2}`))
	require.Error(t, err, "a repeated member")
}
