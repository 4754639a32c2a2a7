package derived_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/proto/events"
	"urr.guru/scripts/internal/derived"
)

// grantedACLs generates the files in a new folder, and returns the arguments that the script passes to
// Kafka's command.
func grantedACLs(t *testing.T, env ...string) (dir, calls string) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "README.md"), []byte("<!-- settings: make settings -->\n<!-- settings end -->\n"), 0o600))
	require.NoError(t, derived.WriteACLs(dir))
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, "kafka-acls.sh"), "echo", "--bootstrap-server", "kafka:9092")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return dir, string(out)
}

// Each topic has one writer, its dead letters are written by those that consume it, and only the
// service of a group writes, reads and creates the group's redriven letters.
func TestACLs(t *testing.T) {
	t.Parallel()
	_, calls := grantedACLs(t)
	services := func(operation, topic string) (found []string) {
		for line := range strings.Lines(calls) {
			words := strings.Fields(line)
			if slices.Contains(words, operation) && slices.Contains(words, topic) {
				found = append(found, regexp.MustCompile("User:urr-([a-z]+)").FindStringSubmatch(line)[1])
			}
		}
		return found
	}
	for _, topic := range events.All() {
		require.Equal(t, []string{topic.Producer}, services("Write", topic.Name), topic.Name)
		require.Equal(t, topic.Consumers, services("Read", topic.Name), topic.Name)
		require.Equal(t, topic.Consumers, services("Write", topic.Name+".dlq"), topic.Name)
		require.Equal(t, topic.Consumers, services("Read", topic.Name+".dlq"), topic.Name)
		require.Contains(t, services("Create", topic.Name+".dlq"), topic.Producer)
		for _, service := range topic.Consumers {
			group := events.Group(service)
			require.Equal(t, []string{service}, services("Read", group), group)
			for _, operation := range []string{"Write", "Read", "Create"} {
				require.Equal(t, []string{service}, services(operation, group+".redriven"), group)
			}
		}
	}
	require.Equal(t, []string{"reward", "worker"}, services("Create", events.Requests), "the reward service may be installed first")
}

func TestACLsHaveThePrefixesOfTheInstallation(t *testing.T) {
	t.Parallel()
	dir, calls := grantedACLs(t, "PREFIX=blue-", "USERS=shop")
	const begin = "--bootstrap-server kafka:9092 --add --allow-principal User:shop-queue --operation "
	for _, line := range []string{
		"Write --topic blue-reservation-events.dlq --topic blue-queue-service-group.redriven",
		"Read --topic blue-reservation-events --topic blue-reservation-events.dlq --topic blue-queue-service-group.redriven --group blue-queue-service-group",
		"Create --operation Describe --operation DescribeConfigs --topic blue-queue-service-group.redriven",
	} {
		require.Contains(t, calls, begin+line+"\n")
	}
	require.Equal(t, 3, strings.Count(calls, "User:shop-queue"))
	table, err := os.ReadFile(filepath.Join(dir, "README.md"))
	require.NoError(t, err)
	require.Contains(t, string(table), "| `request-events` | worker | reward, stats | reward, worker | stats |\n")
}
