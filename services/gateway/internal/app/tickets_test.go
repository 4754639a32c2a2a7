package app_test

import (
	"fmt"
	"image"
	"image/color"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	qr "github.com/piglig/go-qr"
	"github.com/stretchr/testify/require"
)

// A scanner can read the code from the image. Only the ticket's owner gets it, no cache keeps it.
func TestTicketQR(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.ticket.code = strings.Repeat("AbC-_9", 60) // the longest that a code can be
	path := "/api/v1/my/tickets/" + requestID + "/qr.svg"
	rec := w.do(http.MethodGet, path, "", w.session(alice))
	require.Equal(t, http.StatusOK, rec.Code, rec.Body)
	require.Equal(t, "image/svg+xml", rec.Header().Get("Content-Type"))
	require.Equal(t, "private, no-store", rec.Header().Get("Cache-Control"))
	text, err := qr.Decode(paint(t, rec.Body.String()))
	require.NoError(t, err)
	require.Equal(t, w.ticket.code, text)
	require.Equal(t, alice, w.ticket.of("GetMyTicket")[0].caller.GetUserId())

	require.Equal(t, http.StatusUnauthorized, w.do(http.MethodGet, path, "", nil).Code)
	w.ticket.code, w.ticket.status = "", "REFUNDED"
	rec = w.do(http.MethodGet, path, "", w.session(alice))
	require.Equal(t, http.StatusConflict, rec.Code)
	require.Contains(t, rec.Body.String(), `"code":"NOT_VALID"`)
	require.Contains(t, rec.Body.String(), `"why":"REFUNDED"`)
}

// Operators read what is not theirs only where that is an act.
func TestOperatorsReadAsActs(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.ticket.code = "code"
	operator := w.session("operator", "admin")
	for _, row := range []struct {
		own, admin, rest string
		calls            *callLog
		method           string
	}{
		{"/api/v1/my/tickets/", "/api/v1/admin/tickets/", "/qr.svg", &w.ticket.callLog, "GetMyTicket"},
		{"/api/v1/my/tickets/", "/api/v1/admin/tickets/", "", &w.ticket.callLog, "GetMyTicket"},
		{"/api/v1/payments/", "/api/v1/admin/payments/", "", &w.payment.callLog, "GetPayment"},
		{"/api/v1/requests/", "/api/v1/admin/requests/", "/timeline", &w.ingest.callLog, "GetTimeline"},
	} {
		for prefix, roles := range map[string][]string{row.own: nil, row.admin: {"admin"}} {
			acts, path := len(w.acts.of(t, typeActed)), prefix+requestID+row.rest
			require.Equal(t, http.StatusOK, w.do(http.MethodGet, path, "", operator).Code, path)
			require.Len(t, w.acts.of(t, typeActed), acts+len(roles), path)
			sent := row.calls.of(row.method)
			require.Equal(t, roles, sent[len(sent)-1].caller.GetRoles(), path)
		}
		path := row.admin + requestID + row.rest
		require.Equal(t, http.StatusForbidden, w.do(http.MethodGet, path, "", w.session(alice)).Code, path)
	}
}

// paint fills an SVG path, in which H and V lines alternate, by the even-odd rule.
func paint(t *testing.T, svg string) image.Image {
	t.Helper()
	var size int
	_, err := fmt.Sscanf(svg[strings.Index(svg, "viewBox="):], `viewBox="0 0 %d`, &size)
	require.NoError(t, err)
	path := regexp.MustCompile(` d="([^"]*)"`).FindStringSubmatch(svg)
	require.Len(t, path, 2)
	img := image.NewGray(image.Rect(0, 0, size, size))
	for i := range img.Pix {
		img.Pix[i] = 255
	}
	var x, y int
	for _, step := range regexp.MustCompile(`([MLHV])([^MLHV]*)`).FindAllStringSubmatch(path[1], -1) {
		var n []int
		for _, s := range regexp.MustCompile(`-?\d+`).FindAllString(step[2], -1) {
			v, err := strconv.Atoi(s)
			require.NoError(t, err)
			n = append(n, v)
		}
		fromY := y
		switch step[1] {
		case "M":
			x, y = n[0], n[1]
			continue
		case "L": // back to where the border began
			x, y = n[0], n[1]
		case "H":
			x = n[0]
		case "V":
			y = n[0]
		}
		for row := min(fromY, y); row < max(fromY, y); row++ { // inside and outside change places right of a vertical line
			for column := x; column < size; column++ {
				img.SetGray(column, row, color.Gray{Y: 255 - img.GrayAt(column, row).Y})
			}
		}
	}
	return img
}
