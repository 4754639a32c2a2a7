package audit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// returned is SQL that gives seat A-1-3 back, until a time.
func returned(at string) string {
	return `UPDATE seats SET status = 'RETURNED' WHERE seat_id = 'A-1-3'; UPDATE sections SET returns = 1 WHERE section = 'A';
		INSERT INTO returns (event_id, section, seat_id, release_at) VALUES ('e', 'A', 'A-1-3', ` + at + `);`
}

// returnedStanding is SQL that gives a place without a seat back, until a time.
func returnedStanding(at string) string {
	return `UPDATE sections SET returns = returns + 1 WHERE section = 'G'; INSERT INTO returns (event_id, section, release_at) VALUES ('e', 'G', ` + at + `);`
}

func TestWithheldPlaces(t *testing.T) {
	t.Parallel()
	s := &Stores{ticket: newDatabase(t, "ticket")}
	for name, c := range map[string]struct {
		change string
		want   int
	}{
		"all are free, held or sold":  {``, 0},
		"a hold is over":              {`UPDATE seats SET held_until = now() - interval '1 h' WHERE status = 'HELD'`, 0},
		"in the house":                {`UPDATE seats SET status = 'HOUSE' WHERE status = 'FREE'; UPDATE sections SET house = 2 WHERE section = 'G'`, 3},
		"returning":                   {returned(`now() + interval '1 s'`) + returnedStanding(`now() + interval '9 s'`), 0},
		"a little late":               {returned(`now() - interval '1 s'`), 0},
		"late":                        {returned(`now() - interval '1 min'`) + returnedStanding(`now() - interval '1 min'`), 2},
		"not soon":                    {returned(`now() + interval '1 h'`) + returnedStanding(`now() + interval '1 h'`), 2},
		"within the time of an event": {returned(`now() + interval '50 min'`) + `UPDATE events SET return_within = 3600`, 0},
		"nothing says when":           {returned(`now()`) + `UPDATE sections SET returns = 1 WHERE section = 'G'; DELETE FROM returns`, 2},
		"one of two":                  {returnedStanding(`now()`) + returnedStanding(`now() + interval '1 h'`), 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.ticket.Exec(t.Context(), deleteFrom("tickets", "places", "returns", "seats", "sections", "reservations", "events")+sale+c.change)
			require.NoError(t, err)
			var v saleFindings
			require.NoError(t, (&SaleInStores{Stores: s, EventID: "e"}).judgeWithheld(t.Context(), &v))
			require.Equal(t, c.want, *v.Withheld)
			require.Len(t, v.Findings, min(c.want, 1))
		})
	}
}
