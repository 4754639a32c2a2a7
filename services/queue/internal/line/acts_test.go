package line_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
)

// orderedTicket stores acts by their order. meanwhile is the order of an act that it gets between a
// read of the settings and the next change.
type orderedTicket struct {
	*directory

	meanwhile int64
	stored    []line.SettingsChange
}

func (o *orderedTicket) ChangeSettings(_ context.Context, _ string, c line.SettingsChange) (later int64, err error) {
	if o.meanwhile >= c.Act {
		return o.meanwhile, nil
	}
	o.stored = append(o.stored, c)
	return 0, nil
}

// Another replica may bring an act with a higher order to ticket while an operator changes a
// setting without the line. That act was made before.
func TestActWithoutLineIsLaterThanThoseMadeBefore(t *testing.T) {
	w := newTestEnv(t)
	tickets := &orderedTicket{directory: w.tickets, meanwhile: w.clock.Now().UnixMicro() + 5_000_000}
	r := w.replicaWith(w.store(), tickets)
	_, err := r.service.Pause(t.Context(), w.event)
	require.NoError(t, err)
	require.Len(t, tickets.stored, 1)
	require.Greater(t, tickets.stored[0].Act, tickets.meanwhile)
}
