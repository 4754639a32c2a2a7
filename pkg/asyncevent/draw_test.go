package asyncevent_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/asyncevent"
	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/fairdraw/beacon"
)

func TestDrawIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	open, err := asyncevent.DecodeDraw("demo", nil)
	require.NoError(t, err)
	require.Equal(t, asyncevent.Draw{EventID: "demo", Phase: asyncevent.DrawOpen}, open)
	full := asyncevent.Draw{
		EventID: "demo", Phase: asyncevent.DrawSettled, ClosedAt: 1, Statement: "{}", Signature: "aa", RootAt: 2,
		Beacon: &beacon.Round{Round: 7, Randomness: "bb", Signature: "cc"}, ZeroSeed: true, WinnersCount: 3, DrawnAt: 4,
		Seed: "dd", AnnouncedAt: 5, SettledAt: 6, VoidedAt: 7,
	}
	got, err := asyncevent.DecodeDraw("demo", full.Item())
	require.NoError(t, err)
	require.Equal(t, full, got)
	require.NotContains(t, full.Item(), asyncevent.TTL, "like the promotion")
}

// One of two changes of a state of a draw is written, whatever attribute they change.
func TestDrawChangesOnce(t *testing.T) {
	t.Parallel()
	table, client := table(t)
	at := asyncevent.Draw{EventID: "demo", Phase: asyncevent.DrawOpen}
	for i, change := range []func(d *asyncevent.Draw){
		func(d *asyncevent.Draw) { d.Phase = asyncevent.DrawClosed },
		func(d *asyncevent.Draw) { d.Statement = "{}" },
		func(d *asyncevent.Draw) { d.Statement = "" },
		func(d *asyncevent.Draw) { d.Statement = `{"again":1}` },
		func(d *asyncevent.Draw) { d.Signature = "aa" },
		func(d *asyncevent.Draw) { d.ZeroSeed = true },
		func(d *asyncevent.Draw) { d.Beacon = &beacon.Round{Round: 7, Randomness: "bb", Signature: "cc"} },
		func(d *asyncevent.Draw) { d.Seed = "dd" },
		func(d *asyncevent.Draw) { d.SettledAt = 6 },
	} {
		next := at
		change(&next)
		for try := range 2 {
			tx := asyncevent.NewTx(client, table, now)
			tx.Put(0, next.Item(), at.AsRead())
			err := tx.Commit(t.Context())
			require.Equal(t, try == 1, dynamo.Contended(err), "change %d: %v", i, err)
		}
		at = next
	}
}

// The items of many winners stay below DynamoDB's limit, in the order of the ranks.
func TestManyWinners(t *testing.T) {
	t.Parallel()
	winners := make([]uuid.UUID, 45_000)
	for i := range winners {
		winners[i] = uuid.New()
	}
	d := asyncevent.Draw{EventID: "demo", WinnersCount: int64(len(winners)), Beacon: &beacon.Round{Round: 7}}
	items := d.WinnersItems(winners, now)
	keys := d.WinnersKeys()
	require.Len(t, items, len(keys))
	var got []uuid.UUID
	for i, it := range items {
		require.Equal(t, keys[i], asyncevent.KeyOf(it))
		require.Equal(t, dynamo.Number((now+90*day)/1000), it[asyncevent.TTL])
		r := dynamo.Reader{Item: it}
		require.Less(t, len(r.Binary("ids")), 390_000)
		part, err := asyncevent.DecodeWinners(it)
		require.NoError(t, err)
		got = append(got, part...)
	}
	require.Equal(t, winners, got)
	other := d
	other.Beacon = &beacon.Round{Round: 8}
	require.NotEqual(t, keys, other.WinnersKeys(), "a second decision has items of its own")
}
