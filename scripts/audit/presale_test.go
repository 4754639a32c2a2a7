package audit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// presaleSale is a sale whose presale began an hour ago and ended a minute ago. A member and a user
// on the list bought in it; another user bought later.
const presaleSale = `
	INSERT INTO events (event_id, title, artist, venue, starts_at, sales_open_at, sales_close_at, seating, currency, max_per_user, time_zone,
	                    presale_opens_at, presale_ways)
	VALUES ('e', '', '', '', now(), now() - interval '1 min', now() + interval '1 h', 'ASSIGNED', 'KRW', 4, 'Asia/Seoul', now() - interval '1 h',
	        '[{"planId": "p"}, {"list": "l"}]');
	INSERT INTO membership_plans (plan_id, name, price, currency, months, created_at) VALUES ('p', 'p', 10, 'KRW', 1, now()), ('q', 'q', 10, 'KRW', 1, now());
	INSERT INTO memberships (membership_id, user_id, plan_id, price, currency, months, status, pay_until, pay_ends_at, payment_id,
	                         activated_at, starts_at, ends_at, created_at)
	VALUES (gen_random_uuid(), 'member', 'p', 10, 'KRW', 1, 'ACTIVE', now(), now(), gen_random_uuid(),
	        now() - interval '2 h', now() - interval '2 h', now() + interval '20 d', now());
	INSERT INTO entitlement_lists (upload_id, event_id, list, status, uploaded_by, finished_at, updated_at)
	VALUES (lpad('1', 32, '0')::uuid, 'e', 'l', 'CURRENT', 'op', now(), now());
	INSERT INTO entitlement_entries (upload_id, is_email, value) VALUES (lpad('1', 32, '0')::uuid, false, 'listed');
	INSERT INTO reservations (reservation_id, event_id, user_id, slot_id, section, quantity, released, amount, currency, status, payment_id,
	                          expires_at, hold_ends_at, created_at)
	SELECT gen_random_uuid(), 'e', u, '', '', 1, (status = 'REFUNDED')::int, 70, 'KRW', status, gen_random_uuid(), now(), now(), now() - made
	FROM (VALUES ('member', 'CONFIRMED', interval '30 min'), ('listed', 'REFUNDED', interval '20 min'), ('listed', 'EXPIRED', interval '10 min'),
	             ('stranger', 'CONFIRMED', interval '30 s')) AS v (u, status, made);`

// The judge counts reservations without an entitlement, and adds a fault if nobody bought early.
func TestPresaleDetectsStrangers(t *testing.T) {
	t.Parallel()
	s := &Stores{ticket: newDatabase(t, "ticket")}
	for name, c := range map[string]struct {
		damage          string
		early, noBuyers int
	}{
		"nothing":                     {},
		"a stranger was in":           {damage: `UPDATE reservations SET created_at = now() - interval '2 min' WHERE user_id = 'stranger'`, early: 1},
		"a hold of a stranger":        {damage: `UPDATE reservations SET created_at = now() - interval '2 min', status = 'EXPIRED' WHERE user_id = 'stranger'`, early: 1},
		"another list":                {damage: `UPDATE entitlement_lists SET list = 'other'`, early: 2},
		"a list that was replaced":    {damage: `UPDATE entitlement_lists SET status = 'OLD'`, early: 2},
		"an address, not a user":      {damage: `UPDATE entitlement_entries SET is_email = true`, early: 2},
		"another plan":                {damage: `UPDATE memberships SET plan_id = 'q'`, early: 1},
		"a member only later":         {damage: `UPDATE memberships SET activated_at = now() - interval '25 min'`, early: 1},
		"a member before":             {damage: `UPDATE memberships SET ends_at = now() - interval '31 min'`, early: 1},
		"nobody bought":               {damage: `UPDATE reservations SET status = 'EXPIRED'`, noBuyers: 1},
		"bought in the general sale":  {damage: `UPDATE reservations SET created_at = now() WHERE user_id <> 'stranger'`, noBuyers: 1},
		"given away by the organiser": {damage: `UPDATE reservations SET created_at = now() - interval '2 min', origin = 'COMP' WHERE user_id = 'stranger'`},
	} {
		t.Run(name, func(t *testing.T) {
			s.fillPresale(t, c.damage)
			v := judgedPresale(t.Context(), t, s)
			require.Equal(t, c.early, *v.PresaleIn)
			require.Equal(t, c.noBuyers, v.Other)
			require.Len(t, v.Findings, min(c.early, 1)+c.noBuyers)
		})
	}
	s.fillPresale(t, "")
	require.NoError(t, (&SaleInStores{Stores: s, EventID: "e"}).InjectFault(t.Context(), breakPresale))
	require.Equal(t, 1, *judgedPresale(t.Context(), t, s).PresaleIn)
}

func (s *Stores) fillPresale(t *testing.T, damage string) {
	t.Helper()
	_, err := s.ticket.Exec(t.Context(), deleteFrom("entitlement_entries", "entitlement_lists", "memberships", "membership_plans", "reservations", "events")+presaleSale+damage)
	require.NoError(t, err)
}

func judgedPresale(ctx context.Context, t *testing.T, s *Stores) (v saleFindings) {
	t.Helper()
	require.NoError(t, (&SaleInStores{Stores: s, EventID: "e"}).judgePresale(ctx, &v))
	return v
}

// In a presale, entitled users may overtake users without an entitlement. Otherwise nobody may.
func TestOrderInThePresale(t *testing.T) {
	t.Parallel()
	p := presale{GeneralAt: time.UnixMilli(5000)}
	member := Admission{User: "member", Score: 2000, PresentSince: 2, At: 3000, Tick: 3}
	nonMember := Admission{User: "waits", Score: 1000, PresentSince: 1, At: 5000, Tick: 5}
	require.Empty(t, Inversions(p.presentFromGeneralSale([]Admission{member, nonMember})))
	require.Equal(t, int64(1), nonMember.PresentSince)
	early := nonMember
	early.At, early.Tick = 4000, 4
	require.Len(t, Inversions(p.presentFromGeneralSale([]Admission{member, early})), 1, "both were in the presale")
	member.At, member.Tick, nonMember.At, nonMember.Tick = 5000, 5, 6000, 6
	require.Len(t, Inversions(p.presentFromGeneralSale([]Admission{member, nonMember})), 1, "both were in the general sale")
}
