package access_test

import (
	"reflect"
	"testing"

	"urr.guru/proto/access"
)

func TestCalls(t *testing.T) {
	t.Parallel()
	calls := access.Calls()
	for caller, want := range map[string][]string{
		"payment": {"ticket"}, "queue": {"ticket"}, "vwr": {"ingest", "queue", "reward"}, "reward": {"ingest"}, "ticket": nil,
	} {
		if got := calls[caller]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s calls %v, want %v", caller, got, want)
		}
	}
	if got, want := access.Callers(calls, "ticket"), []string{"gateway", "payment", "queue", "stats"}; !reflect.DeepEqual(got, want) {
		t.Errorf("ticket is called by %v, want %v", got, want)
	}
}
