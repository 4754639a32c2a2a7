package outbox

import (
	"encoding/json"
	"strings"
)

// decodeHeaders reads a JSON object whose values are strings. Strings without escapes, such as
// those of kafka.EventHeaders, are cut out of the JSON, which is much faster than decoding it.
func decodeHeaders(b []byte) (map[string]string, error) {
	if headers, ok := cutHeaders(string(b)); ok {
		return headers, nil
	}
	headers := make(map[string]string)
	return headers, json.Unmarshal(b, &headers)
}

// cutHeaders reads a JSON object of strings in the form that PostgreSQL writes: {"a": "b", "c":
// "d"}. ok is false for any other form.
func cutHeaders(s string) (headers map[string]string, ok bool) {
	if strings.ContainsFunc(s, isEscaped) || !strings.HasPrefix(s, `{"`) || !strings.HasSuffix(s, `"}`) || len(s) < len(`{"": ""}`) {
		return nil, false
	}
	headers = make(map[string]string, 8)
	for rest := s[1 : len(s)-1]; ; {
		name, after, found := strings.Cut(rest[1:], `": "`)
		value, next, more := strings.Cut(after, `"`)
		if !found || !more || strings.Contains(name, `"`) {
			return nil, false
		}
		headers[name] = value
		if next == "" {
			return headers, true
		}
		if !strings.HasPrefix(next, `, "`) {
			return nil, false
		}
		rest = next[2:]
	}
}

// isEscaped reports whether c is escaped in a JSON string, or not allowed in one.
func isEscaped(c rune) bool { return c == '\\' || c < ' ' }
