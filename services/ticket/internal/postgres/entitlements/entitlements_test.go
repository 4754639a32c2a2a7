package entitlements_test

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/entitlement"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/entitlements"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/reservation"
)

// presale puts an event whose presale opened an hour ago, and whose sale opens in an hour.
func presale(t *testing.T, id string, seating event.Seating, section event.Section) *storetest.Service {
	t.Helper()
	svc := storetest.New(t)
	spec := storetest.Spec(id, seating, section)
	spec.SalesOpenAt = storetest.Start.Add(time.Hour)
	spec.Presale = &event.Presale{OpensAt: storetest.Start.Add(-time.Hour), MaxPerUser: 2, Ways: []event.Way{
		{CodeList: "friends"}, {List: "partners"}, {Claim: "tier", Values: []string{"gold"}},
	}}
	svc.Put(t, spec)
	return svc
}

func makeCodes(t *testing.T, svc *storetest.Service, list string, count, uses int32) (entitlement.Batch, []string) {
	t.Helper()
	b, codes, err := svc.Entitlements.MakeCodes(t.Context(), entitlement.Batch{EventID: "e", CodeList: list, Count: count, Uses: uses})
	require.NoError(t, err)
	require.Len(t, codes, int(count))
	return b, codes
}

// upload replaces a list. The digest of the file is that of nobody's.
func upload(t *testing.T, svc *storetest.Service, list string, userIDs, emails []string) (l entitlement.UploadedList) {
	t.Helper()
	id, err := svc.Entitlements.BeginUpload(t.Context(), "e", list, "operator")
	require.NoError(t, err)
	for range 2 { // a caller repeats the call if the response was lost
		require.NoError(t, svc.Entitlements.AddToUpload(t.Context(), id, userIDs, emails))
	}
	for range 2 {
		l, err = svc.Entitlements.FinishUpload(t.Context(), id, digest)
		require.NoError(t, err)
		require.Equal(t, entitlement.UploadedList{
			Version: id, Name: list, UserIDs: int64(len(userIDs)), Emails: int64(len(emails)), Added: l.Added, Removed: l.Removed,
			SHA256: digest, UploadedBy: "operator", UpdatedAt: l.UpdatedAt,
		}, l)
	}
	require.ErrorIs(t, svc.Entitlements.AddToUpload(t.Context(), id, userIDs, emails), entitlement.ErrUploadNotFound)
	return l
}

const digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// retention is how long the tests keep replaced lists.
const retention = 48 * time.Hour

func TestWhoIsEntitled(t *testing.T) {
	t.Parallel()
	svc := presale(t, "e", event.General, storetest.Admissions("A", 70, 80))
	_, codes := makeCodes(t, svc, "friends", 1, 1)
	_, otherCodes := makeCodes(t, svc, "of another presale", 1, 1)
	require.NoError(t, svc.Entitlements.UseCode(t.Context(), "e", "coded", codes[0]))
	require.NoError(t, svc.Entitlements.UseCode(t.Context(), "e", "other", otherCodes[0]))
	upload(t, svc, "partners", []string{"listed", "Mail@example.com"}, []string{"known@example.com"})
	upload(t, svc, "guests", []string{"other"}, nil)

	users := []entitlement.User{
		{ID: "coded"},
		{ID: "listed"},
		{ID: "anybody", Email: "known@example.com"},
		{ID: "golden", Claims: []string{"tier=gold"}},
		{ID: "known@example.com"}, // an id is no e-mail address
		{ID: "x", Email: "Mail@example.com"},
		{ID: "silver", Claims: []string{"tier=silver", "gold=tier", "tier=golden"}},
		{ID: "other"},
		{ID: "coded"},
	}
	entitled, err := svc.Entitlements.HoldAny(t.Context(), "e", users)
	require.NoError(t, err)
	require.Equal(t, []bool{true, true, true, true, false, false, false, false, true}, entitled)
	_, err = svc.Entitlements.HoldAny(t.Context(), "unknown", users)
	require.ErrorIs(t, err, event.ErrNotFound)

	mine, err := svc.Entitlements.AllowanceOf(t.Context(), "e", users[0])
	require.NoError(t, err)
	require.Equal(t, entitlement.Allowance{Kind: entitlement.Code, GeneralOpensAt: storetest.Start.Add(time.Hour), Left: 2}, mine)

	// An upload replaces the whole list. The former list is packed, and an upload that does not end is
	// deleted.
	upload(t, svc, "partners", []string{"listed-2"}, nil)
	entitled, err = svc.Entitlements.HoldAny(t.Context(), "e", []entitlement.User{{ID: "listed"}, {ID: "listed-2"}})
	require.NoError(t, err)
	require.Equal(t, []bool{false, true}, entitled)
	store := entitlements.NewStore(svc.Database)
	unfinished, err := store.BeginUpload(t.Context(), "e", "partners", "operator")
	require.NoError(t, err)
	require.NoError(t, store.AddToUpload(t.Context(), unfinished, []string{"u"}, nil))
	require.NoError(t, store.Prune(t.Context(), retention))
	require.EqualValues(t, 6, svc.Count(t, "SELECT count(*) FROM entitlement_entries"), "of both lists, the former one, and an upload")
	svc.Clock.Advance(61 * time.Minute)
	require.NoError(t, store.Prune(t.Context(), retention))
	require.EqualValues(t, 2, svc.Count(t, "SELECT count(*) FROM entitlement_entries"))
	_, err = store.FinishUpload(t.Context(), unfinished, digest)
	require.ErrorIs(t, err, entitlement.ErrUploadNotFound)
	lists, err := store.Lists(t.Context(), "e")
	require.NoError(t, err)
	require.Len(t, lists, 2)
}

// entriesOf reads a version of the list "partners", one part after the other.
func entriesOf(t *testing.T, svc *storetest.Service, version uuid.UUID) (all []entitlement.Entry) {
	t.Helper()
	for after := (entitlement.Entry{}); ; after = all[len(all)-1] {
		part, err := svc.Entitlements.Entries(t.Context(), "e", "partners", version, after)
		require.NoError(t, err)
		if len(part) == 0 {
			return all
		}
		all = append(all, part...)
	}
}

// Whoever swaps a list for another one, and back, leaves three versions that say so. All of them stay
// readable until the retention is over: at once, while they are packed, and packed.
func TestVersionsOfAList(t *testing.T) {
	t.Parallel()
	svc := presale(t, "e", event.General, storetest.Admissions("A", 70, 80))
	store := entitlements.NewStore(svc.Database)
	members := []string{"ann", "bob", "carol"}
	friends := append([]string{"mallory"}, members...)
	members1 := upload(t, svc, "partners", members, []string{"dan@example.com"})
	svc.Clock.Advance(time.Second)
	swapped := upload(t, svc, "partners", friends, nil)
	svc.Clock.Advance(time.Second)
	members2 := upload(t, svc, "partners", members, []string{"dan@example.com"})
	upload(t, svc, "guests", []string{"x"}, nil)

	type counts struct{ added, removed int64 }
	for i, want := range []counts{{4, 0}, {1, 1}, {1, 1}} {
		l := []entitlement.UploadedList{members1, swapped, members2}[i]
		require.Equal(t, want, counts{l.Added, l.Removed}, i)
	}
	want := func(userIDs []string, emails ...string) (entries []entitlement.Entry) {
		for _, id := range slices.Sorted(slices.Values(userIDs)) {
			entries = append(entries, entitlement.Entry{Value: id})
		}
		for _, email := range emails {
			entries = append(entries, entitlement.Entry{IsEmail: true, Value: email})
		}
		return entries
	}
	readable := func() {
		t.Helper()
		swapped.ReplacedAt, members1.ReplacedAt = members2.UpdatedAt, swapped.UpdatedAt
		versions, err := store.Versions(t.Context(), "e", "partners", uuid.Max, 10)
		require.NoError(t, err)
		require.Equal(t, []entitlement.UploadedList{members2, swapped, members1}, versions)
		require.Equal(t, want(friends), entriesOf(t, svc, swapped.Version))
		for _, v := range []entitlement.UploadedList{members1, members2} {
			require.Equal(t, want(members, "dan@example.com"), entriesOf(t, svc, v.Version))
		}
	}
	readable()
	svc.Clock.Advance(61 * time.Minute)
	require.NoError(t, store.Prune(t.Context(), retention))
	readable()
	require.EqualValues(t, 4+1, svc.Count(t, "SELECT count(*) FROM entitlement_entries"), "of the current lists")
	require.EqualValues(t, 3, svc.Count(t, "SELECT count(*) FROM entitlement_packs"))
	older, err := store.Versions(t.Context(), "e", "partners", members2.Version, 1)
	require.NoError(t, err)
	require.Equal(t, []entitlement.UploadedList{swapped}, older)

	for name, c := range map[string]struct {
		event, list string
		version     uuid.UUID
	}{
		"no such version": {"e", "partners", uuid.New()}, "of another list": {"e", "guests", swapped.Version}, "of another event": {"f", "partners", swapped.Version},
	} {
		_, err := store.Entries(t.Context(), c.event, c.list, c.version, entitlement.Entry{})
		require.ErrorIs(t, err, entitlement.ErrUploadNotFound, name)
	}
	_, err = store.Versions(t.Context(), "unknown", "partners", uuid.Max, 10)
	require.ErrorIs(t, err, event.ErrNotFound)

	svc.Clock.Advance(retention)
	require.NoError(t, store.Prune(t.Context(), retention))
	versions, err := store.Versions(t.Context(), "e", "partners", uuid.Max, 10)
	require.NoError(t, err)
	require.Equal(t, []entitlement.UploadedList{members2}, versions)
	require.Zero(t, svc.Count(t, "SELECT count(*) FROM entitlement_packs"))
}

// A long list is packed in parts, also when the process dies between two, and is read in parts.
func TestLongVersions(t *testing.T) {
	t.Parallel()
	svc := presale(t, "e", event.General, storetest.Admissions("A", 70, 80))
	store := entitlements.NewStore(svc.Database)
	var ids, emails []string
	for i := range 12_000 {
		ids, emails = append(ids, "u"+strconv.Itoa(10_000+i)), append(emails, strconv.Itoa(10_000+i)+"@example.com")
	}
	long := upload(t, svc, "partners", ids, emails)
	upload(t, svc, "partners", []string{"ann"}, nil)
	all := entriesOf(t, svc, long.Version)
	require.Len(t, all, 24_000)
	svc.Clock.Advance(61 * time.Minute)
	for _, packed := range []int64{10_000, 20_000, 24_000} {
		_, err := store.PrunePart(t.Context(), retention)
		require.NoError(t, err)
		require.Equal(t, packed, svc.Count(t, "SELECT sum(cardinality(entries)) FROM entitlement_packs"))
		require.Equal(t, all, entriesOf(t, svc, long.Version))
	}
}

// If several uploads of one list finish at the same time, one becomes the current list.
func TestUploadsThatEndAtOnce(t *testing.T) {
	t.Parallel()
	svc := presale(t, "e", event.General, storetest.Admissions("A", 70, 80))
	var group sync.WaitGroup
	for i := range 4 {
		id, err := svc.Entitlements.BeginUpload(t.Context(), "e", "partners", "operator")
		require.NoError(t, err)
		require.NoError(t, svc.Entitlements.AddToUpload(t.Context(), id, []string{"u" + strconv.Itoa(i)}, nil))
		group.Go(func() {
			_, err := svc.Entitlements.FinishUpload(t.Context(), id, digest)
			require.NoError(t, err)
		})
	}
	group.Wait()
	require.EqualValues(t, 1, svc.Count(t, "SELECT count(*) FROM entitlement_lists WHERE status = 'CURRENT'"))
}

func TestCodes(t *testing.T) {
	t.Parallel()
	svc := presale(t, "e", event.General, storetest.Admissions("A", 70, 80))
	use := func(user, code string) error { return svc.Entitlements.UseCode(t.Context(), "e", user, code) }
	b, codes := makeCodes(t, svc, "friends", 2, 2)

	// If several users use a code that allows two uses at the same time, two of them succeed.
	var group sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		group.Go(func() { errs[i] = use("u"+strconv.Itoa(i/2), codes[0]) })
	}
	group.Wait()
	refused := 0
	for _, err := range errs {
		if err != nil {
			require.ErrorIs(t, err, entitlement.ErrCodeInvalid)
			refused++
		}
	}
	require.Equal(t, 2, refused, "both tries of the third account")
	batches, err := svc.Entitlements.Batches(t.Context(), "e")
	require.NoError(t, err)
	require.Len(t, batches, 1)
	require.EqualValues(t, 2, batches[0].Used)

	// A typed code may have spaces around it and in place of the hyphen.
	typed := " " + codes[1][:5] + " " + codes[1][6:]
	require.NoError(t, use("v", typed))
	require.ErrorIs(t, svc.Entitlements.UseCode(t.Context(), "unknown", "v", typed), event.ErrNotFound)

	// After MaxWrongCodes wrong codes within an hour, only a code that the user has used is accepted.
	for range entitlement.MaxWrongCodes {
		require.ErrorIs(t, use("v", "WRONG"), entitlement.ErrCodeInvalid)
	}
	_, newCodes := makeCodes(t, svc, "friends", 1, 1)
	require.ErrorIs(t, use("v", newCodes[0]), entitlement.ErrTooManyCodes)
	require.NoError(t, use("v", codes[1]))
	svc.Clock.Advance(time.Hour)
	require.NoError(t, use("v", newCodes[0]))

	// The codes of a withdrawn batch are void, also for users who have used them.
	_, err = svc.Entitlements.Withdraw(t.Context(), "e", uuid.New())
	require.ErrorIs(t, err, entitlement.ErrBatchNotFound)
	for range 2 {
		b, err = svc.Entitlements.Withdraw(t.Context(), "e", b.ID)
		require.NoError(t, err)
		require.False(t, b.WithdrawnAt.IsZero())
	}
	require.ErrorIs(t, use("w", codes[1]), entitlement.ErrCodeInvalid)
	entitled, err := svc.Entitlements.HoldAny(t.Context(), "e", []entitlement.User{{ID: "u0"}, {ID: "v"}})
	require.NoError(t, err)
	require.Equal(t, []bool{false, true}, entitled, "v has another code")
	svc.Clock.Advance(3 * time.Hour)
	require.NoError(t, entitlements.NewStore(svc.Database).Prune(t.Context(), retention))
	require.Zero(t, svc.Count(t, "SELECT count(*) FROM wrong_codes"))
}

// A code may be typed in small letters, and with letters that look like digits.
func TestMistypedCodes(t *testing.T) {
	t.Parallel()
	svc := presale(t, "e", event.General, storetest.Admissions("A", 70, 80))
	_, codes := makeCodes(t, svc, "friends", 100, 1)
	i := slices.IndexFunc(codes, func(code string) bool { return strings.Contains(code, "0") && strings.Contains(code, "1") })
	require.NotEqual(t, -1, i)
	for _, one := range []string{"i", "l"} {
		typed := strings.NewReplacer("0", "o", "1", one).Replace(strings.ToLower(codes[i]))
		require.NoError(t, svc.Entitlements.UseCode(t.Context(), "e", "v", typed), typed)
	}
}

// In the presale only entitled users can hold seats or admissions, up to the presale's limit.
// Afterwards everybody can, up to the limit of the sale.
func TestHoldsInAPresale(t *testing.T) {
	t.Parallel()
	for seating, section := range map[event.Seating]event.Section{
		event.Assigned: storetest.Rows("A", 70, 2, 40), event.General: storetest.Admissions("A", 70, 80),
	} {
		t.Run(string(seating), func(t *testing.T) {
			t.Parallel()
			svc := presale(t, "e", seating, section)
			hold := func(user string, n int, claims ...string) error {
				_, err := svc.Reservations.HoldBest(t.Context(), reservation.BestRequest{
					EventID: "e", UserID: user, SlotID: "s", Section: "A", Quantity: n, PresaleRight: reservation.PresaleRight{Claims: claims},
				})
				return err
			}
			require.ErrorIs(t, hold("anybody", 1), event.ErrNotEntitled)
			require.NoError(t, hold("golden", 2, "tier=gold"))
			require.ErrorIs(t, hold("golden", 1, "tier=gold"), reservation.ErrLimitExceeded)
			if seating == event.Assigned {
				seatsRequest := reservation.SeatsRequest{EventID: "e", UserID: "anybody", SlotID: "s", SeatIDs: []string{"A-2-1"}}
				_, err := svc.Reservations.HoldSeats(t.Context(), seatsRequest)
				require.ErrorIs(t, err, event.ErrNotEntitled)
				seatsRequest.UserID, seatsRequest.Claims = "golden-2", []string{"tier=gold"}
				_, err = svc.Reservations.HoldSeats(t.Context(), seatsRequest)
				require.NoError(t, err)
			}
			svc.Clock.Advance(time.Hour)
			require.NoError(t, hold("anybody", 4))
			require.NoError(t, hold("golden", 2))
			svc.RequireInvariants(t)
		})
	}
}

func TestSaleStatusOfAPresale(t *testing.T) {
	t.Parallel()
	svc := presale(t, "e", event.General, storetest.Admissions("A", 70, 80))
	for _, want := range []event.Status{event.StatusPresale, event.StatusOnSale} {
		found, err := svc.EventStore.SaleStatuses(t.Context(), []string{"e"})
		require.NoError(t, err)
		got := found["e"]
		require.Equal(t, want, got.Status)
		require.Equal(t, storetest.Start.Add(-time.Hour), got.PresaleOpensAt)
		require.Equal(t, storetest.Start.Add(time.Hour), got.OpensAt)
		svc.Clock.Advance(2 * time.Hour)
	}
}
