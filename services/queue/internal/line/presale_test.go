package line_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
)

// The presale and the sale open by the clock, whichever of the three statuses ticket last reported.
func TestStatusFollowsTheOpenings(t *testing.T) {
	t.Parallel()
	const presale, opens, closes = 100, 200, 300
	for name, c := range map[string]struct {
		reported line.SaleStatus
		want     [4]line.SaleStatus // before the presale, in it, in the sale, after it
	}{
		"scheduled": {line.Scheduled, [4]line.SaleStatus{line.Scheduled, line.Presale, line.OnSale, line.SaleClosed}},
		"presale":   {line.Presale, [4]line.SaleStatus{line.Scheduled, line.Presale, line.OnSale, line.SaleClosed}},
		"on sale":   {line.OnSale, [4]line.SaleStatus{line.Scheduled, line.Presale, line.OnSale, line.SaleClosed}},
		"sold out":  {line.SoldOut, [4]line.SaleStatus{line.Scheduled, line.SoldOut, line.SoldOut, line.SaleClosed}},
		"paused":    {line.SalePaused, [4]line.SaleStatus{line.SalePaused, line.SalePaused, line.SalePaused, line.SaleClosed}},
		"cancelled": {line.Cancelled, [4]line.SaleStatus{line.Cancelled, line.Cancelled, line.Cancelled, line.Cancelled}},
		"unknown":   {line.UnknownSale, [4]line.SaleStatus{line.UnknownSale, line.UnknownSale, line.UnknownSale, line.SaleClosed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sale := line.Sale{Status: c.reported, PresaleOpensAt: presale, OpensAt: opens, ClosesAt: closes}
			for at, want := range map[int64]line.SaleStatus{
				presale - 1: c.want[0], presale: c.want[1], opens - 1: c.want[1], opens: c.want[2], closes - 1: c.want[2], closes: c.want[3],
			} {
				require.Equal(t, want, sale.StatusAt(at), at)
			}
			sale.PresaleOpensAt = 0
			require.Equal(t, c.want[0] == line.Scheduled, sale.StatusAt(opens-1) == line.Scheduled, "without a presale")
		})
	}
	for _, s := range []line.SaleStatus{line.Scheduled, line.Presale, line.OnSale, line.SalePaused, line.SoldOut, line.SaleClosed, line.Cancelled} {
		require.Equal(t, s, line.ParseSaleStatus(s.String()))
	}
}
