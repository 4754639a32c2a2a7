// Package admissiontest reads the stream in which a line records its admissions, and checks their
// order.
package admissiontest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Admission is one user's admission, in the tick of second Tick at the time At (ms). Since is the
// time (ms) from which the user was present in the line.
type Admission struct {
	User            string
	Score           int64
	Tick, Since, At int64
}

// Read returns all admissions in the stream, in order.
func Read(t testing.TB, client redis.Cmdable, stream string) (all []Admission) {
	t.Helper()
	records, err := client.XRange(t.Context(), stream, "-", "+").Result()
	require.NoError(t, err)
	for _, r := range records {
		tick, at := parseNumber(t, r.Values["tick"]), parseNumber(t, r.Values["at"])
		since := map[string]int64{}
		for _, present := range fieldPairs(t, r.Values["since"]) {
			since[present[0]] = parseNumber(t, present[1])
		}
		for _, slot := range fieldPairs(t, r.Values["slots"]) {
			value := strings.Fields(slot[1])
			require.Len(t, value, 4, "as in `slot`")
			a := Admission{User: slot[0], Score: parseNumber(t, value[1]), Tick: tick, At: at}
			var known bool
			if a.Since, known = since[a.User]; !known {
				a.Since = a.Score / 1000
			}
			all = append(all, a)
		}
	}
	return all
}

// fieldPairs splits a field of a stream record into lines, and returns them as pairs of two lines each.
func fieldPairs(t testing.TB, field any) (all [][2]string) {
	t.Helper()
	if field == "" {
		return nil
	}
	lines := strings.Split(field.(string), "\n")
	require.Zero(t, len(lines)%2)
	for i := 0; i < len(lines); i += 2 {
		all = append(all, [2]string{lines[i], lines[i+1]})
	}
	return all
}

func parseNumber(t testing.TB, text any) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text.(string), 10, 64)
	require.NoError(t, err)
	return n
}

// FindOvertaken describes each visitor who was overtaken: the visitor was present when one with a
// higher score was admitted, but was admitted only by a later tick.
func FindOvertaken(all []Admission) []string {
	var out []string
	for i, a := range all {
		for _, b := range all[:i] {
			if a.Since <= b.At && b.Tick < a.Tick && b.Score > a.Score {
				out = append(out, fmt.Sprintf("%+v overtook %+v", b, a))
			}
		}
	}
	return out
}
