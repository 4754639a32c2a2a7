package fairdraw

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// termsChanged lists the fields in which two commitments differ, such as "winners was 5, is 6".
func termsChanged(old, now *Commitment) string {
	before, after := termsByName(old), termsByName(now)
	names := slices.Sorted(maps.Keys(before))
	for name := range after {
		if _, ok := before[name]; !ok {
			names = append(names, name)
		}
	}
	var changes []string
	for _, name := range names {
		if was, is := string(before[name]), string(after[name]); was != is {
			changes = append(changes, fmt.Sprintf("%s was %s, is %s", name, orAbsent(was), orAbsent(is)))
		}
	}
	return strings.Join(changes, "; ")
}

func termsByName(c *Commitment) map[string]json.RawMessage {
	raw, err := canonicalJSON(c)
	if err != nil {
		return nil
	}
	m := map[string]json.RawMessage{}
	_ = json.Unmarshal(raw, &m) // canonicalJSON returns valid JSON
	return m
}

func orAbsent(s string) string {
	if s == "" {
		return "absent"
	}
	return s
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
