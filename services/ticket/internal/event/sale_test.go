package event

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// salesReader is a fake Reader of sales. A read takes 100 ms, and fails when it reads "bad".
type salesReader struct {
	Reader

	statuses map[string]Status
	read     [][]string
}

func (r *salesReader) SaleStatuses(_ context.Context, ids []string) (map[string]SaleStatus, error) {
	time.Sleep(100 * time.Millisecond)
	r.read = append(r.read, ids)
	found := make(map[string]SaleStatus)
	for _, id := range ids {
		if id == "bad" {
			return nil, errors.New("no")
		}
		if s := r.statuses[id]; s != "" {
			found[id] = SaleStatus{Status: s}
		}
	}
	return found, nil
}

// A caller that asks several replicas uses the newest answer, so each answer says how old it is.
func TestSaleStatusHasItsAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &salesReader{statuses: map[string]Status{"on": StatusOnSale, "sold": StatusSoldOut}}
		s := NewService(r, nil, nil)
		ask := func(on, sold, none time.Duration) {
			t.Helper()
			found, missing, err := s.SaleStatuses(t.Context(), []string{"on", "sold", "none"})
			require.NoError(t, err)
			require.Equal(t, map[string]SaleStatus{"on": {Status: StatusOnSale, Age: on}, "sold": {Status: StatusSoldOut, Age: sold}}, found)
			require.Equal(t, none, missing)
		}
		const load = 100 * time.Millisecond
		ask(load, load, load)
		time.Sleep(900 * time.Millisecond)
		ask(time.Second, time.Second, time.Second)
		time.Sleep(time.Millisecond)
		ask(load, time.Second+time.Millisecond+load, load)
		require.Equal(t, []string{"on", "none"}, r.read[1], "what is sold out costs much to read")
		time.Sleep(5*time.Second - (time.Second + time.Millisecond + load))
		ask(load, 5*time.Second+load, load)
		time.Sleep(2 * time.Second)
		ask(load, load, load)
	})
}

// If a query fails, since it is cancelled or reads too much, only the sales of this query fail.
func TestSaleStatusesAreReadFiftyAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &salesReader{}
		s := NewService(r, nil, nil)
		ids := make([]string, 120)
		for i := range ids {
			ids[i] = fmt.Sprint(i)
		}
		ids[60] = "bad"
		_, _, err := s.SaleStatuses(t.Context(), ids)
		require.Error(t, err)
		require.Equal(t, [][]string{ids[:50], ids[50:100], ids[100:]}, r.read)
		_, _, err = s.SaleStatuses(t.Context(), append(ids[:50:50], ids[100:]...))
		require.NoError(t, err)
		require.Len(t, r.read, 3, "the others are known")
	})
}
