package outbox_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/outbox"
)

func TestHeadersAreReadAsJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{}`, `{"a": "b"}`, `{"a": "", "": "c", "한": "국"}`, `{"a":"b"}`, `{ "a": "b" }`, `{"a": "b" , "c": "d"}`, `{"a": "\"x\\"}`, `{"a\u0041": "b"}`,
		`{"a": "b, \"c\": d"}`, `{"a": "{", "b": "}, "}`, `{"a": "b", "a": "c"}`, `{"a": null}`,
		``, `{`, `{"`, `{"}`, `{"a": "b"`, `{"a": "b"}}`, `{"a": 1}`, `{"a": "b", "c": 1}`, `{"a": "b", "c": {"d": "e"}}`, `{"a": "b""c": "d"}`, `{"a": "b", }`,
		`["a"]`, `{"a": ["b"]}`, `{"a" : "b"}`, `{"a": "b",  "c": "d"}`, `{"a", "b": "c"}`, `{"a": "b": "c"}`, "{\"a\": \"b\nc\"}",
	} {
		want := map[string]string{}
		wantErr := json.Unmarshal([]byte(text), &want)
		got, err := outbox.DecodeHeaders([]byte(text))
		if wantErr != nil {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}
