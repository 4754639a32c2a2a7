package line_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
)

// orderedTicket is a fake ticket service that compares the order numbers of acts. Between a read of
// the settings and the next change it gets another replica's act, whose number is otherAct.
type orderedTicket struct {
	*directory

	otherAct int64
	stored   []line.SettingsChange
}

func (o *orderedTicket) ChangeSettings(_ context.Context, _ string, c line.SettingsChange) (laterAct int64, err error) {
	if o.otherAct >= c.Act {
		return o.otherAct, nil
	}
	o.stored = append(o.stored, c)
	return 0, nil
}

// An operator changes a setting without a line. Meanwhile another replica sends an earlier act with
// a higher order number. The operator's act must still count as the later one.
func TestActWithoutLineIsLaterThanThoseMadeBefore(t *testing.T) {
	w := newTestEnv(t)
	tickets := &orderedTicket{directory: w.tickets, otherAct: w.clock.Now().UnixMicro() + 5_000_000}
	r := w.replicaWith(w.store(), tickets)
	_, err := r.service.Pause(t.Context(), w.event)
	require.NoError(t, err)
	require.Len(t, tickets.stored, 1)
	require.Greater(t, tickets.stored[0].Act, tickets.otherAct)
}
