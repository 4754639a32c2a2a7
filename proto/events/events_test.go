package events_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"urr.guru/proto/events"
)

// row is the row of a topic in the table of the README.
func row(t events.Topic) string {
	groups := make([]string, len(t.Consumers))
	for i, service := range t.Consumers {
		groups[i] = "`" + events.Group(service) + "`"
	}
	return fmt.Sprintf("| `%s` | `%s` | %s | %s |", t.Name, t.Key, t.Producer, strings.Join(groups, ", "))
}

func TestTableOfTopics(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var table []string
	for line := range strings.Lines(string(readme)) {
		if strings.HasPrefix(line, "| `") && strings.Contains(line, "-events`") {
			table = append(table, strings.TrimSpace(line))
		}
	}
	var want []string
	for _, topic := range events.All() {
		want = append(want, row(topic))
		for _, kind := range topic.Types {
			if !strings.Contains(string(readme), "`"+kind+"`") {
				t.Errorf("README.md lacks the type %s of %s", kind, topic.Name)
			}
		}
	}
	if !slices.Equal(table, want) {
		t.Errorf("the table of topics in README.md has\n%s\nbut the topics are\n%s", strings.Join(table, "\n"), strings.Join(want, "\n"))
	}
}

// Every declared type belongs to exactly one topic.
func TestEveryTypeHasATopic(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "events.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared, listed []string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for _, v := range spec.Values {
				if literal, ok := v.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					value, _ := strconv.Unquote(literal.Value)
					declared = append(declared, value)
				}
			}
		}
		return true
	})
	for _, topic := range events.All() {
		listed = append(append(listed, topic.Name), topic.Types...)
		if !slices.IsSorted(topic.Consumers) {
			t.Errorf("the consumers of %s are not sorted: %v", topic.Name, topic.Consumers)
		}
	}
	slices.Sort(declared)
	slices.Sort(listed)
	if !slices.Equal(declared, listed) {
		t.Errorf("declared are %v, in topics are %v", declared, listed)
	}
}

// The names of topics, keys and groups do not change, since other programs may rely on them.
func TestNamesAreKept(t *testing.T) {
	t.Parallel()
	for _, want := range []struct{ topic, key, producer, groups string }{
		{"payment-events", "orderId", "payment", "stats-service-group ticket-service-group"},
		{"reservation-events", "reservationId", "ticket", "payment-service-group queue-service-group stats-service-group"},
		{"transfer-events", "transferId", "ticket", "payment-service-group stats-service-group"},
		{"membership-events", "membershipId", "ticket", "payment-service-group stats-service-group"},
	} {
		i := slices.IndexFunc(events.All(), func(topic events.Topic) bool { return topic.Name == want.topic })
		if i < 0 {
			t.Errorf("there is no topic %s", want.topic)
			continue
		}
		topic := events.All()[i]
		var groups []string
		for _, service := range topic.Consumers {
			groups = append(groups, events.Group(service))
		}
		if topic.Key != want.key || topic.Producer != want.producer || strings.Join(groups, " ") != want.groups {
			t.Errorf("%s has key %s, producer %s and groups %v", topic.Name, topic.Key, topic.Producer, groups)
		}
	}
}
