package app_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	statsv1 "urr.guru/proto/gen/urr/stats/v1"
)

// The header of a CSV file of figures, and the two lines of the figures that fakeFigures returns.
const (
	columns = "created,confirmed,cancelled,expired,rejected,seatsSold,rewardsPaid,rewardsFailed,rewardsCancelled,pointsPaid,requestsSucceeded," +
		"requestsRejected,requestsFailed,checkedIn,paymentsDeclined,entries,transfersCompleted,transfersCancelled,transfersRejected,membershipsActivated," +
		"membershipsRejected,membershipsEnded,comps,voided,currency,revenueConfirmed,revenueRefunded,revenueNet,revenuePayments,revenueRefunds,sale,saleRefund,fee," +
		"feeRefund,transfer,transferPayout,transferReturn,transferRefund,membership,membershipRefund\r\n"
	rowEUR = "3,0,0,0,0,-1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,EUR,5,0,5,1,0,0,0,0,0,0,0,0,0,5,0\r\n"
	rowKRW = "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,KRW,70,80,-10,1,2,70,80,0,0,0,0,0,0,0,0\r\n"
)

func requireCSV(t *testing.T, rec *httptest.ResponseRecorder, name, body string) {
	t.Helper()
	require.Equal(t, http.StatusOK, rec.Code, rec.Body)
	require.Equal(t, "text/csv; charset=utf-8", rec.Header().Get("Content-Type"))
	require.Equal(t, `attachment; filename="`+name+`.csv"`, rec.Header().Get("Content-Disposition"))
	require.Equal(t, body, rec.Body.String())
}

func TestSeriesAsCSV(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	admin := w.session("operator", "admin")
	query := "?from=2026-11-21T03:00:00Z&to=2026-11-21T04:00:00Z&step=600"
	rec := w.do(http.MethodGet, "/api/v1/stats/events/calm/series.csv"+query, "", nil)
	requireCSV(t, rec, "series-calm", "at,created,confirmed,cancelled,expired,rejected,seatsSold\r\n2026-11-21T03:00:00Z,3,0,0,0,0,-1\r\n")
	sent, _ := w.stats.of("GetEventSeries")[0].msg.(*statsv1.GetEventSeriesRequest)
	require.Equal(t, "calm", sent.GetEventId())
	require.EqualValues(t, 600, sent.GetStep())
	require.EqualValues(t, 3600, sent.GetTo().GetSeconds()-sent.GetFrom().GetSeconds())

	path := "/api/v1/admin/stats/events/calm/series.csv" + query
	rec = w.do(http.MethodGet, path, "", admin)
	operatorRequest, _ := w.stats.of("GetEventSeriesForOperators")[0].msg.(*statsv1.GetEventSeriesForOperatorsRequest)
	require.Equal(t, "operator", operatorRequest.GetCaller().GetUserId())
	requireCSV(t, rec, "series-calm", "at,"+columns+"2026-11-21T03:00:00Z,"+rowEUR+"2026-11-21T03:00:00Z,"+rowKRW)
	require.Equal(t, http.StatusForbidden, w.do(http.MethodGet, path, "", w.session(alice)).Code)
	for _, bad := range []string{"from=yesterday", "step=x", "step=60&step=60"} {
		rec = w.do(http.MethodGet, "/api/v1/stats/events/calm/series.csv?"+bad, "", nil)
		require.Equal(t, http.StatusBadRequest, rec.Code, bad)
		require.Equal(t, "INVALID_REQUEST", problemOf(t, rec)["code"], bad)
	}
}

func TestDaysAsCSV(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	path, admin := "/api/v1/admin/stats/days.csv?from=2026-11-20&to=2026-11-21", w.session("operator", "admin")
	rec := w.do(http.MethodGet, path+"&limit=1&cursor=x", "", admin)
	zeroes := strings.TrimSuffix(strings.Repeat("0,", 24), ",") + "," + strings.Repeat(",0", 15) + "\r\n"
	requireCSV(t, rec, "days-2026-11-20-2026-11-21", "day,eventId,timeZone,"+columns+"2026-11-20,calm,Asia/Seoul,"+rowEUR+
		"2026-11-20,calm,Asia/Seoul,"+rowKRW+"2026-11-21,,Asia/Seoul,"+zeroes)
	for i, call := range w.stats.of("ListDays") {
		sent, _ := call.msg.(*statsv1.ListDaysRequest)
		require.Equal(t, "operator", sent.GetCaller().GetUserId())
		require.Equal(t, i > 0, sent.GetCursor() != "")
		require.EqualValues(t, 1000, sent.GetLimit())
	}
	require.Equal(t, http.StatusForbidden, w.do(http.MethodGet, path, "", w.session(alice)).Code)
}
