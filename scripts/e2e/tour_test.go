package e2e_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

var update = flag.Bool("update", false, "write the real answers into the tours")

// tourAddress is the gateway's address in the tours; the test replaces it by its own.
const tourAddress = "localhost:8080"

// step is one block of commands and the response shown below it, "" if there is none.
type step struct {
	command, answer string
	start, end      int // of the response in the document, including its line breaks
}

var (
	chapterPattern = regexp.MustCompile(`(?m)^#+ .*\btour with curl$`)
	stepPattern    = regexp.MustCompile("```sh\n([^`]*)```(?:\n\n```json\n([^`]*)```)?")
)

// tour finds the steps in a document's section on the tour, which ends with the next section.
func tour(t *testing.T, doc string) []step {
	t.Helper()
	chapter := chapterPattern.FindStringIndex(doc)
	require.NotNil(t, chapter, "there is a chapter “… tour with curl”")
	from, to := chapter[1], len(doc)
	if next := strings.Index(doc[from:], "\n## "); next >= 0 {
		to = from + next
	}
	var steps []step
	for _, m := range stepPattern.FindAllStringSubmatchIndex(doc[from:to], -1) {
		s := step{command: doc[from+m[2] : from+m[3]]}
		if m[4] >= 0 {
			s.start, s.end = from+m[4], from+m[5]
			s.answer = doc[s.start:s.end]
		}
		steps = append(steps, s)
	}
	return steps
}

// TestTour runs the commands of both tours and compares each response with the shown one, except
// for values that differ between runs.
func TestTour(t *testing.T) {
	t.Parallel()
	for doc, least := range map[string]int{"README.md": 4, "services/gateway/TOUR.md": 10} {
		t.Run(doc, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("..", "..", doc)
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			steps := tour(t, string(raw))
			require.GreaterOrEqual(t, len(steps), least, "the tour goes the whole way")

			answers := runTour(t, steps, harness.Shared(t).Service(platform.Gateway).Addr(0))
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(withAnswers(string(raw), steps, answers)), 0o644))
				return
			}
			for i, s := range steps {
				if s.answer != "" {
					require.Empty(t, cmp.Diff(shape(t, s.answer), shape(t, answers[i])), "the answer to\n%s", s.command)
				}
			}
		})
	}
}

// runTour passes the commands to one shell in its own folder, so that variables and cookie files
// persist.
func runTour(t *testing.T, steps []step, host string) []string {
	t.Helper()
	const mark = "--- end of step ---"
	var script strings.Builder
	script.WriteString("set -eu\n")
	for _, s := range steps {
		fmt.Fprintf(&script, "%s\necho; echo '%s'\n", strings.ReplaceAll(s.command, tourAddress, host), mark)
	}
	ctx, cancel := testkit.Context(t)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script.String())
	cmd.WaitDelay = time.Second // for child processes of the shell
	cmd.Dir = t.TempDir()
	var out, fault bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &fault
	require.NoError(t, cmd.Run(), "%s\n%s", out.String(), fault.String())
	answers := strings.Split(out.String(), mark+"\n")
	require.Len(t, answers, len(steps)+1)
	return answers[:len(steps)]
}

// withAnswers replaces the shown responses by the real ones, indented.
func withAnswers(doc string, steps []step, answers []string) string {
	for i := len(steps) - 1; i >= 0; i-- {
		if steps[i].answer == "" {
			continue
		}
		var pretty bytes.Buffer
		if json.Indent(&pretty, bytes.TrimSpace([]byte(answers[i])), "", "  ") != nil {
			pretty.Reset()
			pretty.WriteString(strings.TrimSpace(answers[i]))
		}
		shown := longToken.ReplaceAllString(pretty.String(), `"$1…"`)
		doc = doc[:steps[i].start] + shown + "\n" + doc[steps[i].end:]
	}
	return doc
}

// Values that differ between runs, by their format.
var (
	uuidPattern  = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	timePattern  = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`)
	dayPattern   = regexp.MustCompile(`^\d{4}-\d\d-\d\d$`)
	tokenPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{40,}(\.[A-Za-z0-9_-]+)*$|^[A-Za-z0-9_.-]{60,}…?$`)
	// longToken is a token of which the tours show the beginning only.
	longToken = regexp.MustCompile(`"([A-Za-z0-9_.-]{80})[A-Za-z0-9_.-]{40,}"`)
)

// shape replaces values that differ between runs by their kind; all else must be equal.
func shape(t *testing.T, answer string) any {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal([]byte(answer), &v), "an answer is JSON: %s", answer)
	return normal("", v)
}

func normal(name string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = normal(k, v[k])
		}
	case []any:
		for i := range v {
			v[i] = normal(name, v[i])
		}
	case string:
		switch {
		case uuidPattern.MatchString(v), name == "entryId", name == "allocationId":
			return "an id"
		case dayPattern.MatchString(v):
			return "a day"
		case timePattern.MatchString(v):
			return "a time"
		case tokenPattern.MatchString(v):
			return "a signed value"
		case strings.Contains(v, "/pay/"):
			return "the address of a page"
		}
	case float64:
		if v > 1e9 || name == "estimatedWait" || name == "nextPoll" || name == "measuredRate" {
			return "a number of the moment"
		}
	}
	return v
}
