package handlers

import (
	"fmt"
	"net/http"
	"strconv"

	qr "github.com/piglig/go-qr"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/caller"
	"urr.guru/services/gateway/internal/edge"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// TicketHandlers serves the QR codes of users' tickets, which are scanned at the doors.
type TicketHandlers struct{ Tickets ticketv1.TicketServiceClient }

// The size of a square of the QR code, and of its margin of four squares (ISO/IEC 18004).
const (
	qrModule = 8
	qrBorder = 4 * qrModule
)

var imageCacheControl = []string{"private, no-store"}

// QR responds with the code of a ticket as an SVG image. A ticket without a code admits nobody.
func (h *TicketHandlers) QR(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	t, err := h.Tickets.GetMyTicket(caller.With(r.Context(), q.Caller()), &ticketv1.GetMyTicketRequest{TicketId: q.Param("ticket_id")})
	if err != nil {
		return err
	}
	if t.GetCode() == "" {
		return errs.ErrNotValid.With("why", t.GetStatus())
	}
	// Medium corrects errors in 15% of the code, as on a scratched or dimmed screen.
	code, err := qr.EncodeText(t.GetCode(), qr.Medium)
	if err != nil {
		return fmt.Errorf("encode the code of a ticket: %w", err)
	}
	image, err := code.ToSVGBytes(qr.NewQrCodeImgConfig(qrModule, qrBorder, qr.WithOptimalSVG()))
	if err != nil {
		return fmt.Errorf("draw the code of a ticket: %w", err)
	}
	head := w.Header()
	head["Content-Type"] = []string{"image/svg+xml"}
	head["Cache-Control"] = imageCacheControl
	head["Content-Length"] = []string{strconv.Itoa(len(image))}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(image) // the client may have disconnected
	return nil
}
