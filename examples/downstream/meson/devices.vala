// SPDX-License-Identifier: LGPL-2.1-or-later
//
// devices: lists the usable devices; fails if there are none.

int main () {
    var count = 0;
    foreach (var device in Gpu.Device.list ()) {
        try {
            device.check ();
            print ("%s: %s\n", device.get_id (), device.get_name ());
            count++;
        } catch (Error e) {
            printerr ("%s: %s\n", device.get_id (), e.message);
        }
    }
    return count > 0 ? 0 : 1;
}
