package table_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
)

func TestDrawIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	open, err := table.DecodeDraw("demo", nil)
	require.NoError(t, err)
	require.Equal(t, promotion.Draw{EventID: "demo", Phase: promotion.DrawOpen}, open)
	full := promotion.Draw{
		EventID: "demo", Phase: promotion.DrawSettled, ClosedAt: 1, Statement: "{}", Signature: "aa", RootAt: 2,
		Beacon: &beacon.Round{Round: 7, Randomness: "bb", Signature: "cc"}, ZeroSeed: true, WinnersCount: 3, DrawnAt: 4,
		Seed: "dd", AnnouncedAt: 5, SettledAt: 6, VoidedAt: 7,
	}
	got, err := table.DecodeDraw("demo", table.DrawItem(&full))
	require.NoError(t, err)
	require.Equal(t, full, got)
	require.NotContains(t, table.DrawItem(&full), table.TTL, "like the promotion")
}

// Only one of two changes of the same state of a draw is written, whatever attribute they change.
func TestDrawChangesOnce(t *testing.T) {
	t.Parallel()
	name, client := newTable(t)
	store := newStore(client, name)
	at := promotion.Draw{EventID: "demo", Phase: promotion.DrawOpen}
	for i, change := range []func(d *promotion.Draw){
		func(d *promotion.Draw) { d.Phase = promotion.DrawClosed },
		func(d *promotion.Draw) { d.Statement = "{}" },
		func(d *promotion.Draw) { d.Statement = "" },
		func(d *promotion.Draw) { d.Statement = `{"again":1}` },
		func(d *promotion.Draw) { d.Signature = "aa" },
		func(d *promotion.Draw) { d.ZeroSeed = true },
		func(d *promotion.Draw) { d.Beacon = &beacon.Round{Round: 7, Randomness: "bb", Signature: "cc"} },
		func(d *promotion.Draw) { d.Seed = "dd" },
		func(d *promotion.Draw) { d.SettledAt = 6 },
	} {
		next := at
		change(&next)
		for try := range 2 {
			tx := store.Begin()
			tx.Put(0, table.DrawItem(&next), table.DrawUnchanged(&at))
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
	d := promotion.Draw{EventID: "demo", WinnersCount: int64(len(winners)), Beacon: &beacon.Round{Round: 7}}
	items := table.WinnersItems(&d, winners, now)
	keys := table.WinnersKeys(&d)
	require.Len(t, items, len(keys))
	var got []uuid.UUID
	for i, it := range items {
		require.Equal(t, keys[i], table.KeyOf(it))
		require.Equal(t, dynamo.Number((now+90*day)/1000), it[table.TTL])
		r := dynamo.Reader{Item: it}
		require.Less(t, len(r.Binary("ids")), 390_000)
		decoded, err := table.DecodeWinners(it)
		require.NoError(t, err)
		got = append(got, decoded...)
	}
	require.Equal(t, winners, got)
	other := d
	other.Beacon = &beacon.Round{Round: 8}
	require.NotEqual(t, keys, table.WinnersKeys(&other), "a second decision has items of its own")
}
