package redis

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing/fstest"

	"github.com/redis/go-redis/v9"

	"urr.guru/services/queue/internal/line"
)

// newKeys are the keys that the previous release does not have.
const newKeys = 3

// NewPrevious makes a store that runs the scripts of the previous release (testdata/previous) on
// the same lines. In these scripts only the first index of their own keys and arguments and the
// length of the head are changed, since the Go code has one layout.
func NewPrevious(client redis.UniversalClient, rules line.Rules, opts ...Option) (*Store, error) {
	files := fstest.MapFS{}
	for _, name := range []string{"prelude", scriptCheck, scriptAdmit, scriptRelease, scriptHold, scriptCleanup, scriptSet} {
		src, err := os.ReadFile("testdata/previous/" + name + ".lua") //nolint:gosec // a constant list
		if err != nil {
			return nil, err
		}
		text := strings.ReplaceAll(string(src), "KEYS[15 + item.t1]", fmt.Sprintf("KEYS[%d + item.t1]", 15+newKeys))
		text = strings.ReplaceAll(text, "local OWN = 11\n", "local OWN = 15\n")
		// The head is longer now.
		text = strings.ReplaceAll(text, "line.arrived }\n", "line.arrived, line.prev, 0, 0, 0 }\n")
		files["lua/"+name+".lua"] = &fstest.MapFile{Data: []byte(text)}
	}
	admit := files["lua/"+scriptAdmit+".lua"]
	// Keeps count of nothing.
	admit.Data = bytes.ReplaceAll(admit.Data, []byte("silent and 1 or 0 }"), []byte("silent and 1 or 0, 0 }"))
	s, err := NewStore(client, rules, opts...)
	if err != nil {
		return nil, err
	}
	s.scripts, err = compile(rules, files)
	return s, err
}
