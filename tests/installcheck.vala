// SPDX-License-Identifier: LGPL-2.1-or-later
// Checks that a program can be compiled with the installed vapi.
int main () {
    try {
        var device = Gpu.Device.find ("host");
        print ("installcheck: Vala, on %s\n", device.get_name ());
        return 0;
    } catch (Error e) {
        error ("%s", e.message);
    }
}
