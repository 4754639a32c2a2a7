// Package wiretest makes messages and JSON bodies for tests: invalid ones for tests of validation, and
// full ones for tests that nothing is lost.
package wiretest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Changed returns a JSON object in which one member has another raw value, or none if value is "".
func Changed(t testing.TB, body, member, value string) string {
	t.Helper()
	object := map[string]json.RawMessage{}
	require.NoError(t, json.Unmarshal([]byte(body), &object), body)
	delete(object, member)
	if value != "" {
		object[member] = json.RawMessage(value)
	}
	out, err := json.Marshal(object)
	require.NoError(t, err)
	return string(out)
}
