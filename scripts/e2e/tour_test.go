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

// tourAddress is the gateway's address in the tours. The test replaces it.
const tourAddress = "localhost:8080"

// step is one block of commands, and the response that the document shows below it; "": none.
type step struct {
	command, answer string
	start, end      int // byte offsets of the response in the document
}

var (
	chapterPattern = regexp.MustCompile(`(?m)^#+ .*\btour with curl$`)
	stepPattern    = regexp.MustCompile("```sh\n([^`]*)```(?:\n\n```json\n([^`]*)```)?")
)

// tourSteps returns the steps of a document's section “… tour with curl”.
func tourSteps(t *testing.T, doc string) []step {
	t.Helper()
	chapter := chapterPattern.FindStringIndex(doc)
	require.NotNil(t, chapter, "there is a chapter “… tour with curl”")
	sectionStart, sectionEnd := chapter[1], len(doc)
	if next := strings.Index(doc[sectionStart:], "\n## "); next >= 0 {
		sectionEnd = sectionStart + next
	}
	var steps []step
	for _, m := range stepPattern.FindAllStringSubmatchIndex(doc[sectionStart:sectionEnd], -1) {
		s := step{command: doc[sectionStart+m[2] : sectionStart+m[3]]}
		if m[4] >= 0 {
			s.start, s.end = sectionStart+m[4], sectionStart+m[5]
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
	for doc, minSteps := range map[string]int{"README.md": 4, "services/gateway/TOUR.md": 10} {
		t.Run(doc, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("..", "..", doc)
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			steps := tourSteps(t, string(raw))
			require.GreaterOrEqual(t, len(steps), minSteps, "the tour goes the whole way")

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

// runTour runs the commands in one shell and an empty folder, so that variables and cookie files
// persist. It returns the output of each step.
func runTour(t *testing.T, steps []step, host string) []string {
	t.Helper()
	const separator = "--- end of step ---"
	var script strings.Builder
	script.WriteString("set -eu\n")
	for _, s := range steps {
		fmt.Fprintf(&script, "%s\necho; echo '%s'\n", strings.ReplaceAll(s.command, tourAddress, host), separator)
	}
	ctx, cancel := testkit.Context(t)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script.String())
	cmd.WaitDelay = time.Second // for child processes of the shell
	cmd.Dir = t.TempDir()
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	require.NoError(t, cmd.Run(), "%s\n%s", out.String(), stderr.String())
	answers := strings.Split(out.String(), separator+"\n")
	require.Len(t, answers, len(steps)+1)
	return answers[:len(steps)]
}

// withAnswers returns the document with its responses replaced by the real ones, indented.
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

// Formats of values that differ between runs.
var (
	uuidPattern  = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	timePattern  = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`)
	dayPattern   = regexp.MustCompile(`^\d{4}-\d\d-\d\d$`)
	tokenPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{40,}(\.[A-Za-z0-9_-]+)*$|^[A-Za-z0-9_.-]{60,}…?$`)
	// longToken matches a token that the tours shorten to its beginning.
	longToken = regexp.MustCompile(`"([A-Za-z0-9_.-]{80})[A-Za-z0-9_.-]{40,}"`)
)

// shape decodes an answer, and replaces each value that differs between runs by a description.
func shape(t *testing.T, answer string) any {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal([]byte(answer), &v), "an answer is JSON: %s", answer)
	return normalize("", v)
}

func normalize(name string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = normalize(k, v[k])
		}
	case []any:
		for i := range v {
			v[i] = normalize(name, v[i])
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
