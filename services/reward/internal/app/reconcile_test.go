package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/lifecycle"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/services/reward/internal/app"
	"urr.guru/services/reward/internal/postgres"
)

func TestReconcileCommand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger")
	require.NoError(t, os.WriteFile(file, []byte(`{"key": "k", "memberId": "m", "value": 1, "transactionId": "t"}`), 0o600))
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	cfg := &app.Config{
		PointURL: "http://127.0.0.1:1/points", CouponURL: "http://127.0.0.1:1/coupons",
		Postgres: pkgpostgres.Config{URL: postgrestest.URL(t, postgres.Migrations...)},
	}
	for name, tc := range map[string]struct {
		args []string
		code int
		out  string
		err  string
	}{
		"no difference": {args: []string{"--ledger", empty}, out: "reconcile: entries=0 allocations=0 paid_twice=0 paid_not_success=0 success_not_paid=0 " +
			"cancelled_paid=0 other_member=0 other_kind=0 other_value=0 unknown_entry=0 undecided=0 differences=0\n"},
		"a difference":  {args: []string{"--ledger", file, "--kind", "POINT", "--as-of", "2026-03-07T12:00:00+09:00"}, code: 1, out: "unknown_entry=1 undecided=0 differences=1\n"},
		"no kind":       {args: []string{"--ledger", file}, code: 2, err: "has no kind"},
		"no ledger":     {args: []string{"--kind", "COUPON"}, code: 2, err: "http://127.0.0.1:1/coupons/v1/ledger"},
		"two providers": {code: 2, err: "name a --kind or a --ledger"},
		"wrong kind":    {args: []string{"--kind", "GOLD"}, code: 2, err: "must be POINT or COUPON"},
		"wrong since":   {args: []string{"--ledger", empty, "--since", "noon"}, code: 2, err: "--since"},
		"wrong time":    {args: []string{"--ledger", empty, "--as-of", "noon"}, code: 2, err: "--as-of"},
		"too many":      {args: []string{"now"}, code: 2, err: "usage: reward reconcile"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := app.Reconcile().Run(t.Context(), cfg, tc.args, &out)
			require.Contains(t, out.String(), tc.out)
			if tc.code == 0 {
				require.NoError(t, err)
				return
			}
			var exit *lifecycle.Exit
			require.ErrorAs(t, err, &exit)
			require.Equal(t, tc.code, exit.Code)
			if tc.err == "" {
				require.NoError(t, exit.Err)
			} else {
				require.ErrorContains(t, exit.Err, tc.err)
			}
		})
	}
}
